"""Writes audit entries in the transaction of the change. Also lists and verifies entries."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from manilla.audit.actor import current, is_unconfirmed
from manilla.audit.entry import GENESIS, AuditEntry, plain
from manilla.kit.database.connections import Connection, Database
from manilla.kit.listing import Conditions
from manilla.kit.listing.sorting import RecordFilter

BATCH = 1000

_ENTRY = """
    SELECT id, at, actor_kind, actor_id, actor_name, actor_realm, action, subject, merchant_id,
           detail, previous_hash, hash
      FROM audit"""


class _Head(msgspec.Struct, frozen=True):
    id: int
    hash: bytes


class AuditFilter(RecordFilter, frozen=True, kw_only=True):
    """Filters for audit log entries. Fields that are None are not applied."""

    search: str | None = None  # the actor's full name or email address
    action: str | None = None  # an action such as `wallet.fund`, or `wallet` for all its actions
    merchant_id: int | None = None
    subject: str | None = None


class AuditVerification(msgspec.Struct, frozen=True):
    count: int  # number of entries that were verified
    last_id: int  # id of the log's latest entry; save it with the hash for later verifications
    last_hash: str
    broken_id: int | None = None  # id of the first entry that was altered, removed or inserted
    reason: str | None = None

    @property
    def is_whole(self) -> bool:
        return self.broken_id is None


async def record(
    connection: Connection,
    action: str,
    subject: str,
    *,
    merchant_id: int | None = None,
    **detail: Any,
) -> None:
    """Adds an entry, which must not contain a secret. Must be the last call in the transaction.

    The log's head stays locked until the commit, so entries are in one order without gaps. If a
    transaction takes another lock afterwards, it can deadlock with a transaction that waits for the
    head.
    """
    assert not is_unconfirmed.get(), f"{action} before the user has confirmed their identity"
    head = await connection.row(_Head, "SELECT id, hash FROM audit_head FOR UPDATE")
    assert head is not None, "the audit log has no head"
    actor = current.get()
    line = AuditEntry(
        id=head.id + 1,
        at=datetime.now(UTC),
        actor_kind=actor.kind,
        actor_id=actor.id,
        actor_name=actor.name,
        actor_realm=actor.realm,
        action=action,
        subject=subject,
        merchant_id=merchant_id,
        detail=plain(detail),
        previous_hash=head.hash,
        hash=b"",
    )
    await _insert(connection, msgspec.structs.replace(line, hash=line.computed_hash))


async def is_streamed(connection: Connection) -> bool:
    """Returns whether another system reads the log, so that it also needs successful sign-ins."""
    return await connection.has_row("SELECT true FROM audit_target LIMIT 1")


async def _insert(connection: Connection, line: AuditEntry) -> None:
    await connection.execute(
        """
        WITH head AS (UPDATE audit_head SET id = $1, hash = $12)
        INSERT INTO audit (id, at, actor_kind, actor_id, actor_name, actor_realm, action, subject,
                           merchant_id, detail, previous_hash, hash)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10::jsonb, $11, $12)""",
        *(line.id, line.at, line.actor_kind, line.actor_id, line.actor_name, line.actor_realm),
        *(line.action, line.subject, line.merchant_id, msgspec.json.encode(line.detail).decode()),
        *(line.previous_hash, line.hash),
    )


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields that differ, each with its old and its new value."""
    return {
        name: {"before": before.get(name), "after": value}
        for name, value in after.items()
        if before.get(name) != value
    }


async def list_entries(
    db: Database | Connection,
    filters: AuditFilter | None = None,
    before_id: int | None = None,
    limit: int = 100,
) -> list[AuditEntry]:
    """Returns entries, newest first. `before_id` is the id of the previous page's last entry."""
    wanted = conditions(filters or AuditFilter()).add_given("id < {}", before_id)
    records = await db.records(
        f"{_ENTRY} WHERE {wanted.sql} ORDER BY id DESC LIMIT {limit}", *wanted.values
    )
    return [read(record) for record in records]


def conditions(wanted: AuditFilter) -> Conditions:
    found = (
        Conditions()
        .add_given("actor_name = {}", wanted.search)
        .add_given("merchant_id = {}", wanted.merchant_id)
        .add_given("subject = {}", wanted.subject)
        .add_given("at >= {}", wanted.since)
        .add_given("at < {}", wanted.until)
    )
    if wanted.action is None:
        return found
    return found.add("(action = {} OR starts_with(action, {} || '.'))", *[wanted.action] * 2)


async def latest(db: Database, action: str) -> dict[str, AuditEntry]:
    """Returns each subject's newest entry with this action."""
    records = await db.records(
        f"SELECT DISTINCT ON (subject) * FROM ({_ENTRY} WHERE action = $1) AS done"
        " ORDER BY subject, id DESC",
        action,
    )
    return {record["subject"]: read(record) for record in records}


class SavedHead(msgspec.Struct, frozen=True):
    """The log's last entry at an earlier verification, saved outside of the database."""

    id: int
    hash: str

    def __str__(self) -> str:
        return f"{self.id}:{self.hash}"


async def head(db: Database | Connection) -> SavedHead:
    """Returns the log's last entry, to be saved outside of the database."""
    found = await db.record("SELECT id, hash FROM audit_head")
    return SavedHead(found["id"], found["hash"].hex())


async def verify(db: Database, kept: SavedHead | None = None) -> AuditVerification:
    """Verifies the hash chain in one snapshot, up to the first broken entry.

    If somebody has rewritten the entire log including its head, the chain is valid. Only the
    comparison with `kept` detects that.
    """
    async with db.transaction() as connection:
        await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        return await verify_in(connection, kept)


async def verify_in(connection: Connection, kept: SavedHead | None = None) -> AuditVerification:
    """Verifies the hash chain in the connection's transaction, which must have one snapshot."""
    head = await connection.row(_Head, "SELECT id, hash FROM audit_head")
    if head is None:
        return AuditVerification(0, 0, "", 0, "The head of the log is missing.")
    verdict = await _walk(connection, head)
    if kept is None or not verdict.is_whole:
        return verdict
    found = await connection.value("SELECT hash FROM audit WHERE id = $1", kept.id)
    if found is not None and found.hex() == kept.hash:
        return verdict
    reason = "The entry was removed." if found is None else "The entry differs from the saved hash."
    return msgspec.structs.replace(verdict, broken_id=kept.id, reason=reason)


async def _walk(connection: Connection, head: _Head) -> AuditVerification:
    count, last_hash, after = 0, GENESIS, -(2**63)
    while batch := await list_after(connection, after, BATCH):
        for line in batch:
            reason = _broken(line, count + 1, last_hash, head)
            if reason is not None:
                return AuditVerification(
                    count, head.id, head.hash.hex(), min(line.id, count + 1), reason
                )
            count, last_hash = line.id, line.hash
        after = batch[-1].id
    if count < head.id:
        reason = f"The log ends after line {count}, but it had {head.id} lines."
        return AuditVerification(count, head.id, head.hash.hex(), count + 1, reason)
    if last_hash != head.hash:
        return AuditVerification(
            count, head.id, head.hash.hex(), count, "The entry does not match the log's head."
        )
    return AuditVerification(count, head.id, head.hash.hex())


def _broken(line: AuditEntry, expected_id: int, last_hash: bytes, head: _Head) -> str | None:
    if line.id > expected_id:
        return "The entry was removed."
    if line.id < expected_id or line.id > head.id:
        return "The entry was inserted."
    if line.previous_hash != last_hash:
        return "The entry does not match the previous entry's hash."
    if line.computed_hash != line.hash:
        return "The entry was changed."
    return None


async def list_after(db: Database | Connection, after: int, limit: int) -> list[AuditEntry]:
    """Returns the entries that follow this id, oldest first.

    Entries are committed in the order of their ids, so a later call finds no entry in between.
    """
    records = await db.records(_ENTRY + " WHERE id > $1 ORDER BY id LIMIT $2", *(after, limit))
    return [read(record) for record in records]


def read(record: Any) -> AuditEntry:
    fields = dict(record)
    return AuditEntry(**{**fields, "detail": msgspec.json.decode(fields["detail"])})
