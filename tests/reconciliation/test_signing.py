"""A sign-off stores the day's figures. A later change is shown with the old and new figures."""

import asyncio

import pytest

from manilla.audit import audit
from manilla.audit.actor import Actor, ActorKind, acting
from manilla.audit.audit import AuditFilter
from manilla.reconciliation import reports, signing
from manilla.reconciliation.reports import DayReport
from manilla.reconciliation.signing import NotSigned
from tests.reconciliation.ledger_samples import Account, day, naira

ADA = Actor(ActorKind.PERSON, 1, "ada@example.com", "console")


async def _report(account: Account, ago: int = 3) -> DayReport:
    report = await reports.find(account.db, account.name, "NGN", day(ago))
    assert report is not None
    return report


async def _sign(account: Account, note: str = "", ago: int = 3, seen: str | None = None) -> None:
    with acting(ADA):
        await signing.sign(account.db, account.name, "NGN", day(ago), note=note, seen=seen)


async def test_a_signed_day_has_its_figures_its_signer_and_an_audit_entry(account: Account) -> None:
    trx_id = await account.post(5000)
    await account.imports(account.line(5000, reference=trx_id))
    await _sign(account)
    report = await _report(account)
    assert (report.sign_off, report.signed_by, report.changes) == ("signed", ADA.name, [])
    assert report.signed is not None
    assert (report.signed.ledger, report.signed.statement) == (naira(5000), naira(5000))
    [entry] = await audit.list_entries(account.db, AuditFilter(subject=f"provider:{account.name}"))
    assert (entry.action, entry.actor_name) == ("statement.sign_off", ADA.name)
    assert entry.detail["day"] == day(3).isoformat()


async def test_a_change_after_sign_off_is_shown_with_both_figures(account: Account) -> None:
    trx_id = await account.post(5000)
    line = account.line(5000, reference=trx_id)
    await account.imports(line)
    await _sign(account)
    await account.imports(account.line(-100))
    report = await _report(account)
    assert report.sign_off == "changed after sign-off"
    assert [(each.label, each.signed, each.current) for each in report.changes] == [
        ("Moved on the statement", naira(5000), naira(4900)),
        ("Lines on the statement", 1, 2),
        ("Unmatched lines", 0, 1),
    ]
    await _sign(account, "A fee that the provider will return")
    assert (await _report(account)).sign_off == "signed"
    notes = [each.note for each in await signing.of_day(account.db, report.day)]
    assert notes == ["A fee that the provider will return", ""]


async def test_a_day_with_something_unmatched_is_signed_only_with_a_note(account: Account) -> None:
    await account.imports(account.line(-100))
    with pytest.raises(NotSigned) as raised:
        await _sign(account)
    assert "note" in (raised.value.errors or {})
    await _sign(account, "Asked the provider")
    assert (await _report(account)).note == "Asked the provider"


@pytest.mark.parametrize("note", ["two\nlines", "x" * 501, "\u202egnp"])
async def test_an_unreadable_note_is_rejected(account: Account, note: str) -> None:
    await account.imports(account.line(-100))
    with pytest.raises(NotSigned):
        await _sign(account, note)
    assert (await _report(account)).signed is None


async def test_only_a_day_that_is_over_and_was_imported_is_signed(account: Account) -> None:
    await account.imports(account.line(-100, ago=0), days=(2, 0))
    for ago in (0, 9):
        with pytest.raises(NotSigned):
            await _sign(account, "note", ago=ago)


async def test_figures_that_changed_since_they_were_shown_are_not_signed(account: Account) -> None:
    await account.imports(account.line(-100))
    seen = signing.digest((await _report(account)).day)
    await account.imports(account.line(-200))
    with pytest.raises(NotSigned, match="changed"):
        await _sign(account, "note", seen=seen)
    await _sign(account, "note", seen=signing.digest((await _report(account)).day))


async def test_a_sign_off_during_an_import_has_the_figures_before_or_after_it(
    account: Account,
) -> None:
    await account.imports(account.line(-100))
    await asyncio.gather(account.imports(account.line(-200)), _sign(account, "note"))
    [signed] = await signing.of_day(account.db, (await _report(account)).day)
    assert (signed.lines, signed.open_lines, signed.lines_minor) in [(1, 1, -100), (2, 2, -300)]


async def test_a_sign_off_cannot_be_changed_or_deleted(account: Account) -> None:
    await account.imports(account.line(-100))
    await _sign(account, "note")
    for statement in ("UPDATE day_sign_off SET note = ''", "DELETE FROM day_sign_off"):
        for db in (account.db, account.owner):
            with pytest.raises(Exception, match=r"append-only|permission denied"):
                await db.execute(statement)
