"""SQL queries for approvals."""

from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from manilla.audit.actor import Actor, ActorKind
from manilla.kit import listing
from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.rows import Reads
from manilla.kit.fields import Fields
from manilla.kit.listing import PAGE_ROWS, Conditions, Page
from manilla.kit.listing.sorting import NUMBERED, RecordFilter, Selection, Totals
from manilla.kit.money import Money
from manilla.people.roles import Realm


class ApprovalStatus(StrEnum):
    """The possible statuses of an approval that is no longer pending."""

    APPROVED = "approved"
    REFUSED = "refused"
    EXPIRED = "expired"


class Approval(msgspec.Struct, frozen=True):
    id: int
    kind: str
    subject: str
    merchant_id: int | None
    detail: dict[str, Any]
    reason: str
    status: str
    asked_by: Actor
    asked_at: datetime
    expires_at: datetime
    decided_by: Actor | None
    decided_at: datetime | None
    decision: str | None

    def is_of(self, team: int | None) -> bool:
        """Returns whether this team decides on the approval. `team` is None for administrators."""
        if self.asked_by.realm == Realm.DASHBOARD:
            return team is not None and team == self.merchant_id
        return team is None


FIELDS = Fields(
    Approval,
    asked_by="asked_by.name",
    decided_by=lambda row: row.decided_by and row.decided_by.name,
)
# A pending approval past its deadline is shown as expired, even if its row is not updated yet.
_APPROVAL = """
    SELECT id, kind, subject, merchant_id, detail, reason,
           CASE WHEN status = 'waiting' AND expires_at <= now() THEN 'expired' ELSE status END
               AS status,
           asked_kind, asked_id, asked_name, asked_realm, asked_at, expires_at,
           decided_kind, decided_id, decided_name, decided_realm, decided_at, decision
      FROM approval"""


async def approval(
    db: Database | Connection, approval_id: int, *, lock: bool = False
) -> Approval | None:
    record = await db.record(
        _APPROVAL + " WHERE id = $1" + (" FOR UPDATE" if lock else ""), approval_id
    )
    return None if record is None else _read(record)


async def approvals(
    db: Database | Connection,
    *,
    waiting_only: bool,
    before_id: int | None,
    limit: int,
    team: int | None = None,
) -> list[Approval]:
    """Returns the approvals of a merchant's team or of the administrators, newest first."""
    records = await db.records(
        _APPROVAL
        + """
         WHERE (NOT $1 OR status = 'waiting' AND expires_at > now())
           AND ($2::bigint IS NULL OR id < $2)
           AND (asked_realm IS NOT DISTINCT FROM 'dashboard') = ($4::bigint IS NOT NULL)
           AND ($4 IS NULL OR merchant_id = $4)
         ORDER BY id DESC LIMIT $3""",
        *(waiting_only, before_id, limit, team),
    )
    return [_read(record) for record in records]


async def count_waiting(db: Database, team: int) -> int:
    return await db.number(
        """
        SELECT count(*) FROM approval
         WHERE merchant_id = $1 AND asked_realm = 'dashboard' AND status = 'waiting'
           AND expires_at > now()""",
        team,
    )


class ApprovalFilter(RecordFilter, frozen=True, kw_only=True):
    status: ApprovalStatus | None = None
    kind: str | None = None
    search: str | None = None  # an approval's number or subject


async def past_approvals(
    db: Reads,
    wanted: ApprovalFilter,
    *,
    after: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[Approval]:
    """Returns a page of the administrators' past approvals, by default newest first."""
    return await _selected(wanted).page(db, _read, wanted.sort, after, limit)


async def totals(db: Reads, wanted: ApprovalFilter) -> Totals:
    return await _selected(wanted).count(db)


def _selected(wanted: ApprovalFilter) -> Selection:
    conditions = (
        Conditions()
        .add("asked_realm IS DISTINCT FROM 'dashboard' AND status <> 'waiting'")
        .add_given("status = {}", wanted.status)
        .add_given("kind = {}", wanted.kind)
        .add_given("asked_at >= {}", wanted.since)
        .add_given("asked_at < {}", wanted.until)
        .add_given("{} IN (id::text, subject)", listing.search_text(wanted.search))
    )
    return Selection(f"({_APPROVAL}) AS approval", "*", NUMBERED, conditions)


async def payload(connection: Connection, approval_id: int) -> bytes:
    sealed: bytes = await connection.value(
        "SELECT payload_sealed FROM approval WHERE id = $1", approval_id
    )
    return sealed


async def next_id(connection: Connection) -> int:
    """Reserves the id of a new approval. The id is needed to encrypt the change."""
    return await connection.number("SELECT nextval(pg_get_serial_sequence('approval', 'id'))")


async def insert(
    connection: Connection,
    approval_id: int,
    *,
    kind: str,
    subject: str,
    merchant_id: int | None,
    detail: dict[str, Any],
    sealed: bytes,
    reason: str,
    asked_by: Actor,
) -> None:
    await connection.execute(
        """
        INSERT INTO approval (id, kind, subject, merchant_id, detail, payload_sealed, reason,
                              asked_kind, asked_id, asked_name, asked_realm)
        VALUES ($1, $2, $3, $4, $5::jsonb, $6, $7, $8, $9, $10, $11)""",
        *(approval_id, kind, subject, merchant_id, msgspec.json.encode(detail).decode(), sealed),
        *(reason, asked_by.kind, asked_by.id, asked_by.name, asked_by.realm),
    )


async def decide(
    connection: Connection, approval_id: int, status: str, actor: Actor, decision: str | None
) -> None:
    """Writes the decision and deletes the stored change, so that nobody can apply or read it."""
    await connection.execute(
        """
        UPDATE approval
           SET status = $2, decided_kind = $3, decided_id = $4, decided_name = $5,
               decided_realm = $6, decided_at = now(), decision = $7, payload_sealed = NULL
         WHERE id = $1 AND status = 'waiting'""",
        *(approval_id, status, actor.kind, actor.id, actor.name, actor.realm, decision),
    )


async def delete_expired(db: Database | Connection) -> None:
    await db.execute(
        """
        UPDATE approval SET status = 'expired', payload_sealed = NULL
         WHERE status = 'waiting' AND expires_at <= now()"""
    )


async def has_production_payment(connection: Connection, merchant_id: int) -> bool:
    found = await connection.value(
        """
        SELECT EXISTS (SELECT FROM payment
                        WHERE merchant_id = $1 AND environment = 'production')""",
        merchant_id,
    )
    return bool(found)


async def moved_alone(connection: Connection, actor: Actor, subject: str, currency: str) -> Money:
    """Returns the amount that the actor moved without approval in the last 24 hours.

    Counts adjustments, case resolutions and records of disputes. For a user, this is the total of
    all subjects. For commands, it is the total of this wallet, case or dispute only, because
    several people may share one host account, and they have access to the keys anyway.
    """
    is_person = actor.kind is ActorKind.PERSON
    who = f"{actor.kind}:{actor.id if is_person else actor.name}"
    # Serialize an actor's concurrent changes, so that the total includes all earlier changes.
    await connection.execute(
        "SELECT pg_advisory_xact_lock(hashtextextended('moved alone:' || $1::text, 0))", who
    )
    # Skip approved movements, which are followed in the audit log by an entry about the approval.
    moved = await connection.value(
        """
        SELECT coalesce(sum(abs(split_part(line.detail ->> 'amount', ' ', 1)::numeric)), 0)
          FROM audit line
         WHERE line.action IN ('wallet.fund', 'wallet.adjust', 'case.resolve', 'dispute.record')
           AND split_part(line.detail ->> 'amount', ' ', 2) = $4
           AND (line.subject LIKE 'wallet:%:production:%'
                OR line.detail ->> 'environment' = 'production')
           AND ($2::bigint IS NOT NULL OR line.subject = $5)
           AND line.actor_kind = $1 AND line.actor_id IS NOT DISTINCT FROM $2
           AND ($2::bigint IS NOT NULL OR line.actor_name = $3)
           AND line.at > now() - interval '24 hours'
           AND NOT EXISTS (SELECT FROM audit following
                            WHERE following.id = line.id + 1
                              AND following.action = 'approval.approve'
                              AND following.detail ->> 'about'
                                  IN (line.subject, 'payment:' || (line.detail ->> 'payment')))""",
        *(actor.kind, actor.id, actor.name, currency, subject),
    )
    return Money.of(moved, currency)


def _read(record: Any) -> Approval:
    fields = dict(record)
    asked_by = _actor(fields, "asked")
    decided_by = _actor(fields, "decided")
    assert asked_by is not None
    fields["detail"] = msgspec.json.decode(fields["detail"])
    return Approval(**fields, asked_by=asked_by, decided_by=decided_by)


def _actor(fields: dict[str, Any], who: str) -> Actor | None:
    kind, number, name, realm = (
        fields.pop(f"{who}_{part}") for part in ("kind", "id", "name", "realm")
    )
    return None if kind is None else Actor(ActorKind(kind), number, name, realm)
