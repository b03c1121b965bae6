"""Statement lines and ledger movements are matched by reference, or by amount and time."""

import asyncio

import msgspec
import pytest

from manilla.kit.money import Money
from manilla.ledger import trx_ids
from manilla.posting_kinds import PostingKind
from manilla.providers.port import LineKind
from manilla.reconciliation import days, figures, unmatched
from manilla.reconciliation.movements import UnknownMovement
from manilla.reconciliation.unmatched import MATCHES_NOW
from tests.reconciliation.ledger_samples import Account, day, naira
from tests.support.waiting import until


async def test_a_line_with_our_reference_matches(account: Account) -> None:
    trx_id = await account.post(500)
    await account.imports(account.line(500, reference=f"Payout {trx_id.lower()}"))
    assert await account.unmatched() == []


async def test_a_charge_and_its_separate_fee_match_as_a_sum(account: Account) -> None:
    trx_id = trx_ids.new(0)
    await account.post(1000, kind=PostingKind.PAYMENT, trx_id=trx_id)
    await account.post(-15, kind=PostingKind.PROVIDER_FEE, trx_id=f"{trx_id}-1")
    reference = f"{trx_id}-1"
    await account.imports(account.line(985, reference=reference))
    assert await account.unmatched() == []
    other = trx_ids.new(0)
    await account.post(-2000, kind=PostingKind.PAYOUT_DELIVERED, trx_id=other)
    await account.post(-10, kind=PostingKind.PAYOUT_PROVIDER_FEE, trx_id=other)
    fee = account.line(-10, reference=other, kind=LineKind.FEE)
    await account.imports(account.line(-2000, reference=other), fee)
    assert await account.unmatched() == []


async def test_a_posting_of_an_unknown_kind_is_not_compared_as_a_charge(account: Account) -> None:
    """A kind that changes a clearing account needs a statement line, or it is compared wrongly."""
    trx_id = await account.post(500, kind=PostingKind.FUNDING)
    with pytest.raises(UnknownMovement, match=f"clearing:{account.name} has the unknown kind fund"):
        await account.imports(account.line(500, reference=trx_id))


async def test_a_lost_line_is_only_in_our_ledger_and_becomes_one_case(account: Account) -> None:
    trx_id = await account.post(-700, kind=PostingKind.PAYOUT_DELIVERED)
    await account.imports()
    await account.compare()
    assert await account.findings() == [("only in our ledger", -700, None)]
    [case] = await account.cases()
    assert (case.kind, case.trx_id, case.amount) == ("statement_differs", trx_id, naira(700))
    assert "our ledger has -₦7.00" in case.detail


async def test_a_doubled_line_differs(account: Account) -> None:
    trx_id = await account.post(300)
    await account.imports(account.line(300, reference=trx_id))
    assert await account.unmatched() == []
    await account.imports(account.line(300, reference=trx_id))
    assert await account.findings() == [("the amounts differ", 300, 600)]


async def test_an_amount_that_differs_is_reported_with_both_sides(account: Account) -> None:
    trx_id = await account.post(300)
    await account.imports(account.line(299, reference=trx_id))
    assert await account.findings() == [("the amounts differ", 300, 299)]
    [case] = await account.cases()
    assert case.amount == naira(-1)


async def test_a_line_that_we_do_not_have_is_only_on_the_statement(account: Account) -> None:
    unknown = account.line(-250, reference=trx_ids.new(0))
    await account.imports(unknown, account.line(-5, minutes=1))
    assert await account.findings() == [
        ("only on the statement", None, -250),
        ("only on the statement", None, -5),
    ]
    assert len(await account.cases()) == 2


async def test_a_case_is_closed_when_the_match_arrives(account: Account) -> None:
    trx_id = await account.post(-700)
    await account.imports()
    assert len(await account.cases()) == 1
    await account.imports(account.line(-700, ago=1, reference=trx_id))
    assert await account.cases() == []
    [case] = await account.cases(include_resolved=True)
    assert case.resolution == MATCHES_NOW


async def test_amount_and_time_match_where_exactly_one_fits(account: Account) -> None:
    await account.post(12345)
    await account.imports(account.line(12345, minutes=90))
    assert await account.unmatched() == []


async def test_two_candidates_are_never_chosen_between(account: Account) -> None:
    await account.post(500)
    await account.post(500)
    await account.imports(account.line(500))
    assert len(await account.unmatched()) == 3
    await account.imports(account.line(500))
    assert len(await account.unmatched()) == 4


async def test_an_amount_does_not_match_another_kind_or_a_distant_day(account: Account) -> None:
    await account.post(900, ago=5)
    await account.post(800)
    refund = account.line(800, kind=LineKind.REFUND)
    await account.imports(account.line(900, ago=3), refund)
    assert len(await account.unmatched()) == 4


async def test_a_line_with_our_reference_never_matches_another_transaction(
    account: Account,
) -> None:
    await account.post(500)
    await account.imports(account.line(500, reference=trx_ids.new(0)))
    assert sorted(await account.findings(), key=str) == [
        *(("only in our ledger", 500, None), ("only on the statement", None, 500)),
    ]


async def test_a_transfer_that_came_back_matches_on_both_sides(account: Account) -> None:
    trx_id = trx_ids.new(0)
    await account.post(-700, kind=PostingKind.PAYOUT_DELIVERED, trx_id=trx_id)
    out, back = (account.line(minor, reference=trx_id) for minor in (-700, 700))
    await account.imports(out, back)
    assert await account.findings() == [("the amounts differ", -700, 0)]
    await account.post(700, ago=2, kind=PostingKind.PAYOUT_REFUND, trx_id=trx_id)
    await account.compare()
    assert await account.unmatched() == []


async def test_without_the_statement_of_a_day_nothing_is_missing(account: Account) -> None:
    await account.post(100, ago=3)
    await account.imports(days=(5, 4))
    assert await account.unmatched() == []
    await account.imports(days=(5, 3))
    assert len(await account.unmatched()) == 1
    assert await account.cases() == []  # The next day's provider statement may contain it.
    await account.imports(days=(5, 2))
    assert len(await account.cases()) == 1


async def test_what_is_less_than_a_day_old_is_no_case_yet(account: Account) -> None:
    await account.imports(account.line(5, ago=0, minutes=-720), days=(2, 0))
    assert len(await account.unmatched()) == 1
    assert await account.cases() == []


async def test_importing_the_same_lines_again_changes_nothing(account: Account) -> None:
    trx_id = await account.post(300)
    line = account.line(300, reference=trx_id, line_id="1")
    await account.imports(line)
    await account.imports(line, account.line(7, line_id="2"))
    assert await account.findings() == [("only on the statement", None, 7)]
    [figures] = [each for each in await days.days(account.db, account.name) if each.day == day(3)]
    assert (figures.lines, figures.lines_minor, figures.movements_minor) == (2, 307, 300)
    assert (figures.open_lines, figures.open_movements, figures.difference) == (1, 0, naira(7))
    assert figures.ledger_balance == naira(300)


async def test_the_ledger_balance_of_a_day_becomes_final_after_the_day(account: Account) -> None:
    async def balances() -> list[Money | None]:
        found = await days.days(account.db, account.name)
        return [each.ledger_balance for each in found if each.day in (day(3), day(0))]

    await account.post(300)
    await account.imports(account.line(7), days=(5, 0))  # an unmatched line
    assert await balances() == [naira(300), naira(300)]
    await account.post(50, ago=0)
    await account.compare()
    assert await balances() == [naira(350), naira(300)]
    # A posting that commits long after its timestamp does not exist in practice.
    await account.post(1000, ago=4)
    await account.compare()
    assert await balances() == [naira(1350), naira(300)]
    await account.owner.execute(
        "UPDATE statement_day SET ledger_at = day + interval '1 day' WHERE provider = $1",
        account.name,
    )
    await account.compare()
    assert await balances() == [naira(1350), naira(1300)]


async def test_a_posting_that_commits_during_a_comparison_is_not_part_of_earlier_days(
    account: Account,
) -> None:
    """The day's balance becomes final, so a later comparison would not correct it."""
    await account.post(300)
    await account.imports()
    await account.owner.execute(
        "UPDATE statement_day SET ledger_at = NULL WHERE provider = $1", account.name
    )

    async def is_waiting() -> bool:
        return await account.db.has_row(
            "SELECT true FROM pg_locks"
            " WHERE relation = 'statement_day'::regclass AND NOT granted LIMIT 1"
        )

    async with account.db.transaction() as connection:
        # The balance is computed up to the statement that saves it, which waits for the lock.
        async with account.owner.transaction() as owner:
            await owner.execute("LOCK TABLE statement_day IN EXCLUSIVE MODE")
            storing = asyncio.create_task(figures._store_ledger_balance(connection, account.name))
            await until(is_waiting)
            await account.post(50, ago=0)
        await storing
    found = await days.find(account.db, account.name, "NGN", day(3))
    assert found is not None
    assert found.ledger_balance == naira(300)


async def test_a_line_whose_amount_changes_is_compared_again(account: Account) -> None:
    trx_id = await account.post(300)
    await account.imports(account.line(300, reference=trx_id, line_id="1"))
    await account.imports(account.line(310, reference=trx_id, line_id="1"))
    assert await account.findings() == [("the amounts differ", 300, 310)]


async def test_a_line_whose_currency_changes_matches_no_longer(account: Account) -> None:
    trx_id = await account.post(300)
    line = account.line(300, reference=trx_id, line_id="1")
    await account.imports(line)
    await account.imports(msgspec.structs.replace(line, amount=Money("USD", 300)))
    assert sorted(await account.findings(), key=str) == [
        *(("only in our ledger", 300, None), ("only on the statement", None, 300)),
    ]


async def test_a_line_whose_id_is_a_transaction_of_ours_stays_unmatched(account: Account) -> None:
    trx_id = await account.post(300)
    nameless = account.line(7, line_id=trx_id)
    await account.imports(account.line(300, reference=trx_id), nameless)
    assert await account.findings() == [("only on the statement", None, 7)]


async def test_of_many_equal_amounts_none_is_guessed(account: Account) -> None:
    made = [await account.post(500) for _ in range(3)]
    given = [account.line(500, minutes=number) for number in range(3)]
    await account.imports(*given, account.line(500, reference=made[0]))
    assert len(await account.unmatched()) == 5


async def test_imports_while_matching_lose_and_double_nothing(account: Account) -> None:
    made = [await account.post(100 + number) for number in range(20)]
    given = [
        account.line(100 + number, reference=trx_id, line_id=str(number))
        for number, trx_id in enumerate(made)
    ]
    parts = [given[start : start + 12] for start in (0, 4, 8)]
    await asyncio.gather(*(account.imports(*part) for part in parts), account.compare())
    await account.compare()
    assert await account.unmatched() == []
    lines = sum(each.lines for each in await days.days(account.db, account.name))
    assert lines == 20


async def test_at_most_so_many_cases_are_opened_at_once(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unmatched, "CASES_MAX", 3)
    await account.imports(*(account.line(number) for number in range(1, 6)))
    assert len(await account.cases()) == 3
