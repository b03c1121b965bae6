"""Approvals: a second person decides exactly once on each requested change.

Administrators decide on changes to the platform. A merchant's team decides on changes that its
members have requested. `team` is the merchant's id, or None for the administrators.
"""

import msgspec

from manilla.approvals import kinds, queries
from manilla.approvals.kinds import Change, Result
from manilla.approvals.queries import Approval, ApprovalStatus
from manilla.audit import audit
from manilla.audit.actor import Actor, current
from manilla.audit.entry import plain
from manilla.kit.crypto import Keyring, SealedColumn
from manilla.kit.database.connections import Connection, Database
from manilla.kit.errors import Refusal
from manilla.kit.texts import is_line
from manilla.mail import outbox
from manilla.mail.kinds import MailKind
from manilla.people import second_person
from manilla.people.second_person import ApprovalNotAllowed, ApprovalRequest

REASON_LENGTH_MAX = 200
LIST_MAX = 1000
ID_MAX = 2**63 - 1

_DECODER: msgspec.json.Decoder[Change] = msgspec.json.Decoder(Change)


class ApprovalNotFound(Refusal):
    status, code = 404, "APPROVAL_NOT_FOUND"
    message = "There is no such approval."


class Approvals(msgspec.Struct, frozen=True):
    """The services needed to apply changes and to request approvals."""

    db: Database
    keyring: Keyring
    is_production_mode: bool


class Approved(msgspec.Struct, frozen=True):
    approval: Approval
    result: Result


async def request(services: Approvals, change: Change, reason: str = "") -> int:
    """Stores the encrypted change for approval. Returns the id of the new approval."""
    async with services.db.transaction() as connection:
        await check(connection, services, change)
        return await request_in(connection, services.keyring, change, reason)


async def request_in(
    connection: Connection, keyring: Keyring, change: Change, reason: str = ""
) -> int:
    """Stores a change that `check` has accepted. Returns the id of the new approval."""
    if len(reason) > REASON_LENGTH_MAX or not reason.isprintable():
        raise ApprovalNotAllowed(
            f"A reason can have at most {REASON_LENGTH_MAX} printable characters."
        )
    await queries.delete_expired(connection)
    approval_id = await queries.next_id(connection)
    detail = plain(await kinds.describe(connection, change))
    kind = str(change.__struct_config__.tag)
    about = kinds.subject(change), kinds.merchant_of(change)
    await queries.insert(
        connection,
        approval_id,
        kind=kind,
        subject=about[0],
        merchant_id=about[1],
        detail=detail,
        sealed=keyring.seal(msgspec.json.encode(change), _context(approval_id)),
        reason=reason,
        asked_by=current.get(),
    )
    await audit.record(
        connection,
        "approval.ask",
        f"approval:{approval_id}",
        merchant_id=about[1],
        kind=kind,
        about=about[0],
        wanted=detail,
        reason=reason,
    )
    if kinds.is_of_team(change):
        await kinds.mail_team(connection, change)
    else:
        await _mail_administrators(connection, f"{kind} of {about[0]}", reason)
    return approval_id


async def check(connection: Connection, services: Approvals, change: Change) -> None:
    """Rejects a change that can never be applied in the current mode."""
    await kinds.check(connection, change, is_production_mode=services.is_production_mode)


async def _mail_administrators(connection: Connection, change: str, reason: str) -> None:
    """Emails all administrators except the requester about the requested change."""
    actor = current.get()
    await outbox.put(
        connection,
        MailKind.APPROVAL_REQUESTED,
        {"by": actor.name, "change": change, "reason": reason},
        path="/console/approvals",
        except_person=actor.id if actor.realm == "console" else None,
    )


async def approve(services: Approvals, approval_id: int, *, team: int | None = None) -> Approved:
    """Approves and applies the change. A row lock ensures that this happens only once."""
    actor = current.get()
    async with services.db.transaction() as connection:
        asked = await _lock(connection, approval_id, team)
        await second_person.check_approval(connection, _request(asked, team), actor)
        change = await _change(connection, services.keyring, asked)
        await check(connection, services, change)
        result = await kinds.apply(connection, services.keyring, change)
        await _decide(connection, asked, ApprovalStatus.APPROVED, actor, None)
    return Approved(await find(services.db, approval_id, team=team), result)


async def check_approval(services: Approvals, approval_id: int, *, team: int | None = None) -> None:
    """Raises an error if the current user cannot approve the change now."""
    asked = await find(services.db, approval_id, team=team)
    await second_person.check_approval(services.db, _request(asked, team), current.get())


async def refuse(
    services: Approvals, approval_id: int, reason: str, *, team: int | None = None
) -> Approval:
    """Rejects the change. The requester can use this to withdraw the request."""
    if not is_line(reason, REASON_LENGTH_MAX):
        raise ApprovalNotAllowed(
            f"A reason must have 1 to {REASON_LENGTH_MAX} printable characters."
        )
    async with services.db.transaction() as connection:
        asked = await _lock(connection, approval_id, team)
        second_person.check_pending(_request(asked, team))
        await _decide(connection, asked, ApprovalStatus.REFUSED, current.get(), reason)
    return await find(services.db, approval_id, team=team)


async def find(db: Database | Connection, approval_id: int, *, team: int | None = None) -> Approval:
    found = await queries.approval(db, approval_id) if 0 < approval_id <= ID_MAX else None
    if found is None or not found.is_of(team):
        raise ApprovalNotFound(f"There is no approval {approval_id}.")
    return found


async def waiting(db: Database, *, team: int | None = None) -> list[Approval]:
    """Returns pending approvals that have not expired, newest first."""
    return await queries.approvals(db, waiting_only=True, before_id=None, limit=LIST_MAX, team=team)


async def count_waiting(db: Database, *, team: int) -> int:
    """Returns the number of pending approvals in a merchant's team."""
    return await queries.count_waiting(db, team)


async def list_approvals(
    db: Database, before_id: int | None = None, limit: int = 100
) -> list[Approval]:
    """Returns pending and past approvals, newest first."""
    return await queries.approvals(db, waiting_only=False, before_id=before_id, limit=limit)


async def _lock(connection: Connection, approval_id: int, team: int | None) -> Approval:
    asked = await queries.approval(connection, approval_id, lock=True)
    if asked is None or not asked.is_of(team):
        raise ApprovalNotFound(f"There is no approval {approval_id}.")
    return asked


def _request(asked: Approval, team: int | None) -> ApprovalRequest:
    return ApprovalRequest(
        asked_by=asked.asked_by,
        is_pending=asked.status == "waiting",
        has_ended=ApprovalNotAllowed(f"Approval {asked.id} is {asked.status} already."),
        is_own=ApprovalNotAllowed("You requested this change, so another person must approve it."),
        team=team,
    )


async def _change(connection: Connection, keyring: Keyring, asked: Approval) -> Change:
    sealed = await queries.payload(connection, asked.id)
    change = _DECODER.decode(keyring.open(sealed, _context(asked.id)))
    # Apply only the exact change that the second person was shown.
    if plain(await kinds.describe(connection, change)) != asked.detail:
        raise ApprovalNotAllowed(
            f"Approval {asked.id} would apply a different change than it shows."
        )
    return change


async def _decide(
    connection: Connection,
    asked: Approval,
    status: ApprovalStatus,
    actor: Actor,
    decision: str | None,
) -> None:
    await queries.decide(connection, asked.id, status, actor, decision)
    await audit.record(
        connection,
        "approval.approve" if status is ApprovalStatus.APPROVED else "approval.refuse",
        f"approval:{asked.id}",
        merchant_id=asked.merchant_id,
        kind=asked.kind,
        about=asked.subject,
        asked_by=asked.asked_by.name,
        reason=decision,
    )


def _context(approval_id: int) -> str:
    return f"approval:{approval_id}"


SEALED = SealedColumn("approval", "payload_sealed", ("id",), lambda row: _context(row["id"]))
