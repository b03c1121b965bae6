"""The entries of the audit log are in order without gaps, and every modification is detected."""

import asyncio
from datetime import UTC, datetime

import msgspec
import pytest

from manilla.audit import audit
from manilla.audit.actor import SYSTEM, Actor, ActorKind, acting, current
from manilla.audit.audit import AuditFilter, SavedHead
from manilla.audit.entry import AuditEntry
from manilla.kit.database.connections import Database
from manilla.kit.money import Money
from tests.audit.tampering import tampered

ADA = Actor(ActorKind.PERSON, 7, "Ada", "console")


async def write(db: Database, action: str, subject: str = "test") -> None:
    async with db.transaction() as connection:
        await audit.record(connection, action, subject)


async def newest(db: Database) -> int:
    [line] = await audit.list_entries(db, limit=1)
    return line.id


async def test_an_entry_records_who_did_what_to_which_object(db: Database) -> None:
    before = await db.value("SELECT clock_timestamp()")
    with acting(ADA):
        async with db.transaction() as connection:
            await audit.record(
                connection, "test.say", "thing:1", merchant_id=3, amount=Money("NGN", 150050)
            )
    assert current.get() == SYSTEM
    [line] = await audit.list_entries(db, AuditFilter(action="test.say"))
    assert (line.actor, line.subject, line.merchant_id) == (ADA, "thing:1", 3)
    assert line.detail == {"amount": "1500.50 NGN"}
    assert before <= line.at <= await db.value("SELECT clock_timestamp()")


async def test_a_failed_change_leaves_no_entry_and_no_gap(db: Database) -> None:
    await write(db, "test.before")
    before = await newest(db)
    with pytest.raises(ZeroDivisionError):
        async with db.transaction() as connection:
            await audit.record(connection, "test.undone", "test")
            raise ZeroDivisionError
    await write(db, "test.after")
    assert await newest(db) == before + 1
    assert await audit.list_entries(db, AuditFilter(action="test.undone")) == []
    assert (await audit.verify(db)).is_whole


async def test_twenty_concurrent_entries_form_one_chain_without_a_gap(db: Database) -> None:
    await write(db, "test.before")
    before = await newest(db)
    await asyncio.gather(*(write(db, "test.at_once", f"n:{n}") for n in range(20)))
    lines = await audit.list_entries(db, AuditFilter(action="test.at_once"), limit=20)
    assert [line.id for line in reversed(lines)] == list(range(before + 1, before + 21))
    verdict = await audit.verify(db)
    assert (verdict.is_whole, verdict.count, verdict.last_id) == (True, before + 20, before + 20)
    assert verdict.last_hash == lines[0].hash.hex()


async def test_the_log_is_read_in_pages_and_filtered(db: Database) -> None:
    for n in range(5):
        with acting(ADA):
            await write(db, "pages.read", f"n:{n}")
    await write(db, "pagesnot.read")
    filters = AuditFilter(search="Ada", action="pages")
    first = await audit.list_entries(db, filters, None, 2)
    second = await audit.list_entries(db, filters, first[-1].id, 2)
    assert [line.subject for line in first + second] == ["n:4", "n:3", "n:2", "n:1"]
    assert (
        await audit.list_entries(db, AuditFilter(subject="n:4", action="pages.read")) == first[:1]
    )
    assert await audit.list_entries(db, AuditFilter(merchant_id=987654)) == []


@pytest.mark.parametrize(
    ("statement", "broken", "reason"),
    [
        ("UPDATE audit SET subject = 'other' WHERE id = {id}", 0, "changed"),
        ("UPDATE audit SET detail = '{{\"amount\": 1}}' WHERE id = {id}", 0, "changed"),
        ("UPDATE audit SET actor_name = 'Eve' WHERE id = {id}", 0, "changed"),
        ("UPDATE audit SET at = at + interval '1 us' WHERE id = {id}", 0, "changed"),
        ("DELETE FROM audit WHERE id = {id}", 0, "removed"),
        ("DELETE FROM audit WHERE id > {id}", 1, "ends after"),
        ("DELETE FROM audit", None, "ends after line 0"),
        ("UPDATE audit SET hash = sha256('x') WHERE id = {id} + 2", 2, "changed"),
        (
            "INSERT INTO audit SELECT id + 3, at, actor_kind, actor_id, actor_name, actor_realm,"
            " action, subject, merchant_id, detail, hash, hash FROM audit WHERE id = {id}",
            3,
            "inserted",
        ),
        (
            "INSERT INTO audit SELECT 0, at, actor_kind, actor_id, actor_name, actor_realm,"
            " action, subject, merchant_id, detail, hash, hash FROM audit WHERE id = {id}",
            None,
            "inserted",
        ),
        ("UPDATE audit_head SET hash = sha256('x')", 2, "does not match the log's head"),
    ],
)
async def test_the_first_altered_entry_is_reported(
    db: Database, owner: Database, statement: str, broken: int | None, reason: str
) -> None:
    for n in range(3):
        await write(db, "test.tamper", f"n:{n}")
    target = await newest(db) - 2
    async with tampered(owner, statement.format(id=target)):
        verdict = await audit.verify(db)
    assert not verdict.is_whole
    if broken is not None:
        assert verdict.broken_id == target + broken
    assert verdict.reason is not None
    assert reason in verdict.reason
    assert (await audit.verify(db)).is_whole


def test_every_field_of_an_entry_is_hashed() -> None:
    entry = AuditEntry(
        id=1,
        at=datetime(2026, 1, 31, tzinfo=UTC),
        actor_kind="person",
        actor_id=2,
        actor_name="Ada",
        actor_realm="console",
        action="test.hash",
        subject="n:1",
        merchant_id=3,
        detail={"amount": "4"},
        previous_hash=b"5",
        hash=b"",
    )
    other = AuditEntry(
        id=11,
        at=datetime(2026, 2, 1, tzinfo=UTC),
        actor_kind="command",
        actor_id=None,
        actor_name="Eve",
        actor_realm=None,
        action="test.other",
        subject="n:2",
        merchant_id=None,
        detail={},
        previous_hash=b"6",
        hash=b"",
    )
    for name in set(entry.__struct_fields__) - {"hash"}:
        changed = msgspec.structs.replace(entry, **{name: getattr(other, name)})
        assert changed.computed_hash != entry.computed_hash, name


async def test_a_log_truncated_with_its_head_fails_against_a_saved_proof(
    db: Database, owner: Database
) -> None:
    for n in range(2):
        await write(db, "test.kept", f"n:{n}")
    before = await audit.verify(db)
    kept = SavedHead(before.last_id, before.last_hash)
    await write(db, "test.kept", "n:2")
    assert (await audit.verify(db, kept)).is_whole
    assert not (await audit.verify(db, SavedHead(kept.id, "0" * 64))).is_whole
    cut = f"""
        DELETE FROM audit WHERE id >= {kept.id};
        UPDATE audit_head SET (id, hash) = (SELECT id, hash FROM audit ORDER BY id DESC LIMIT 1)"""
    async with tampered(owner, cut):
        assert (await audit.verify(db)).is_whole
        verdict = await audit.verify(db, kept)
    assert (verdict.broken_id, verdict.reason) == (kept.id, "The entry was removed.")


async def test_an_entry_with_a_recomputed_hash_does_not_match_the_next(
    db: Database, owner: Database
) -> None:
    for n in range(2):
        await write(db, "test.forge", f"n:{n}")
    target = (await audit.list_entries(db, AuditFilter(subject="n:0"), limit=1))[0]
    forged = type(target)(
        **{name: getattr(target, name) for name in target.__struct_fields__} | {"subject": "n:9"}
    )
    statement = (
        f"UPDATE audit SET subject = 'n:9', hash = '\\x{forged.computed_hash.hex()}'"
        f" WHERE id = {target.id}"
    )
    async with tampered(owner, statement):
        verdict = await audit.verify(db)
    assert (verdict.broken_id, verdict.reason) == (
        target.id + 1,
        "The entry does not match the previous entry's hash.",
    )


@pytest.mark.parametrize(
    "statement",
    ["UPDATE audit SET subject = 'x'", "DELETE FROM audit", "DELETE FROM audit_head"],
)
async def test_neither_the_application_nor_its_owner_can_rewrite_the_log(
    db: Database, owner: Database, statement: str
) -> None:
    await write(db, "test.kept")
    with pytest.raises(Exception, match=r"permission denied|append-only"):
        await db.execute(statement)
    with pytest.raises(Exception, match="append-only"):
        await owner.execute(statement)


async def test_a_value_without_a_canonical_form_is_not_written(db: Database) -> None:
    async with db.transaction() as connection:
        with pytest.raises(TypeError, match="float has no canonical form"):
            await audit.record(connection, "test.float", "test", share=0.5)
