"""Provider statements with payments, payouts and refunds. A line without a match opens a case."""

import csv
import io
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
import pytest

from manilla.kit.money import Money
from manilla.ledger import provider_funds
from manilla.ledger.provider_funds import SettlementKind
from manilla.providers.checks import references
from manilla.providers.port import LineKind, StatementLine
from manilla.reconciliation import importing
from tests.payments.shop import Shop
from tests.payouts.payout_merchant import PayoutMerchant
from tests.reconciliation.provider_story import ProviderStory, new_amount
from tests.support import kinds
from tests.support.rows import first_short

pytestmark = pytest.mark.usefixtures("_no_statements")
WITH_STATEMENTS = ("paystack", "kora", "monnify")
EVERY_MOVEMENT = ("paystack", "kora")  # Monnify's statement contains only transfers and their fees.
# Paystack's statement lines contain only Paystack's ids. Other providers return our references.
every_kind = pytest.mark.parametrize(
    "rail", first_short(WITH_STATEMENTS, of_each=lambda rail: rail == "paystack")
)
FOUND_BY = {"paystack": {"provider_reference"}, "kora": {"reference"}, "monnify": {"reference"}}


@pytest.fixture
def story(rail: str, shop: Shop, payer: PayoutMerchant) -> ProviderStory:
    return ProviderStory(kinds.BY_RAIL[rail], shop, payer)


def _line(minor: int, kind: LineKind, **known: str) -> StatementLine:
    moment = datetime.now(UTC)
    line = StatementLine(line_id="new", booked_at=moment, amount=Money("NGN", minor), kind=kind)
    return msgspec.structs.replace(line, **known)


def _main(lines: Sequence[StatementLine], amount: Money) -> StatementLine:
    """Returns the statement line of a payout with this amount, which may include the fee."""
    paid = [line for line in lines if line.kind is LineKind.TRANSFER]
    return min(paid, key=lambda line: abs(line.amount.minor + amount.minor))


@every_kind
async def test_a_statement_that_agrees_matches_every_payout(story: ProviderStory) -> None:
    made = [await story.pay_out() for _ in range(2)]
    trx_ids = [trx_id for trx_id, _ in made]
    for _ in range(2):
        await story.imports()
        assert await story.findings(*trx_ids) == []
    for trx_id in trx_ids:
        assert await story.matched_by(trx_id) == FOUND_BY[story.kind.rail]
    assert await story.cases(*trx_ids) == []
    assert (await story.today()).open_lines == 0


@pytest.mark.parametrize("rail", EVERY_MOVEMENT)
async def test_a_payment_and_its_refund_match(story: ProviderStory) -> None:
    payment, _ = await story.pay_in()
    refund = await story.refund(payment)
    await story.imports()
    assert await story.findings(payment, refund) == []
    assert await story.matched_by(payment) == FOUND_BY[story.kind.rail]
    assert await story.matched_by(refund) <= {"provider_reference", "reference"}
    assert await story.cases(payment, refund) == []


@every_kind
async def test_a_lost_line_is_a_case_and_the_late_line_closes_it(story: ProviderStory) -> None:
    trx_id, amount = await story.pay_out()
    await story.imports(lambda lines: [])
    [(finding, ledger, statement)] = await story.findings(trx_id)
    assert (finding, statement) == ("only in our ledger", None)
    assert ledger is not None
    assert -ledger >= amount.minor
    [case] = await story.cases(trx_id)
    assert "the provider's statement nothing" in case.detail
    await story.imports()
    assert await story.findings(trx_id) == []
    assert await story.cases(trx_id) == []


@every_kind
async def test_a_doubled_line_is_a_case_with_both_sides(story: ProviderStory) -> None:
    trx_id, amount = await story.pay_out()

    def double(lines: list[StatementLine]) -> list[StatementLine]:
        return [*lines, msgspec.structs.replace(_main(lines, amount), line_id="again")]

    await story.imports(double)
    [(finding, ledger, statement)] = await story.findings(trx_id)
    assert finding == "the amounts differ"
    assert ledger is not None
    assert statement is not None
    assert -statement >= -ledger + amount.minor
    [case] = await story.cases(trx_id)
    assert case.amount == Money("NGN", statement - ledger)


@every_kind
async def test_a_different_amount_is_a_case_with_both_sides(story: ProviderStory) -> None:
    trx_id, amount = await story.pay_out()

    def take_more(lines: list[StatementLine]) -> list[StatementLine]:
        line = _main(lines, amount)
        more = msgspec.structs.replace(line, amount=line.amount - Money("NGN", 1))
        return [more if each is line else each for each in lines]

    await story.imports(take_more)
    [(finding, ledger, statement)] = await story.findings(trx_id)
    assert finding == "the amounts differ"
    assert ledger is not None
    assert statement == ledger - 1
    [case] = await story.cases(trx_id)
    assert str(Money("NGN", ledger)) in case.detail
    assert str(Money("NGN", statement)) in case.detail


@every_kind
async def test_a_line_of_something_unknown_is_a_case(story: ProviderStory) -> None:
    trx_id, _ = await story.pay_out()
    unknown = _line(-777, LineKind.TRANSFER, provider_reference="987654321987")
    await story.imports(lambda lines: [*lines, unknown])
    assert await story.findings(trx_id) == [("only on the statement", None, -777)]
    [case] = await story.cases(trx_id)
    assert "our ledger has nothing" in case.detail
    assert "lines new" in case.detail


@every_kind
async def test_a_fee_and_a_settlement_match_once_they_are_recorded(story: ProviderStory) -> None:
    trx_id, _ = await story.pay_out()
    fee, settled = new_amount(), new_amount()
    extra = [
        _line(-fee.minor, LineKind.FEE, line_id="fee"),
        _line(-settled.minor, LineKind.SETTLEMENT, line_id="settlement"),
    ]
    await story.imports(lambda lines: [*lines, *extra])
    expected = {("only on the statement", None, -each.minor) for each in (fee, settled)}
    assert set(await story.findings(trx_id)) == expected
    assert len(await story.cases(trx_id)) == 2
    provider = story.kind.provider
    for kind, amount in ((SettlementKind.FEE, fee), (SettlementKind.SETTLEMENT, settled)):
        await provider_funds.settle(story.db, kind, provider, amount, "from the statement")
    # The file contains all types of movements, so Monnify's settlement is compared too.
    await importing.import_file(story.db, provider, _csv(extra))
    await story.report_later()
    assert await story.findings(trx_id) == []
    assert await story.cases(trx_id) == []


@every_kind
async def test_a_file_with_the_same_lines_agrees_too(story: ProviderStory) -> None:
    trx_id, _ = await story.pay_out()
    read: list[StatementLine] = []

    def keep(lines: list[StatementLine]) -> list[StatementLine]:
        read.extend(lines)
        return []

    await story.imports(keep)
    assert len(await story.findings(trx_id)) == 1
    await importing.import_file(story.db, story.kind.provider, _csv(read))
    await story.report_later()
    assert await story.findings(trx_id) == []
    assert await story.cases(trx_id) == []


def _csv(lines: Sequence[StatementLine]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text)
    names = ("line_id", "booked_at", "kind", "reference", "provider_reference", "description")
    writer.writerow([*names, "amount"])
    for line in lines:
        cells = [getattr(line, name) or "" for name in names]
        writer.writerow([*cells, line.amount.amount])
    return text.getvalue().encode()


@pytest.mark.parametrize("rail", ["paystack"])
async def test_numbers_of_paystack_match_only_their_own_kind(story: ProviderStory) -> None:
    trx_id, _ = await story.pay_out()
    number = (await story.payer.payout(trx_id)).provider_reference
    assert number is not None
    refund = _line(-555, LineKind.REFUND, provider_reference=number)
    await story.imports(lambda lines: [*lines, refund])
    assert await story.findings(trx_id) == [("only on the statement", None, -555)]


@pytest.mark.parametrize("rail", ["paystack"])
async def test_without_numbers_equal_payouts_are_cases_and_a_single_one_matches(
    story: ProviderStory,
) -> None:
    single, equal = new_amount(), new_amount()
    alone, _ = await story.pay_out(single)
    twins = [(await story.pay_out(equal))[0] for _ in range(2)]

    def forget_numbers(lines: list[StatementLine]) -> list[StatementLine]:
        return [msgspec.structs.replace(line, provider_reference=None) for line in lines]

    await story.imports(forget_numbers)
    assert await story.matched_by(alone) == {"amount"}
    found = [finding for finding, _, _ in await story.findings(alone, *twins)]
    assert sorted(found) == ["only in our ledger"] * 2 + ["only on the statement"] * 2
    assert len(await story.cases(alone, *twins)) == 4


@every_kind
@pytest.mark.parametrize("is_lower", [False, True])
async def test_a_line_of_a_check_is_counted_as_such_and_is_no_case(
    story: ProviderStory, is_lower: bool
) -> None:
    reference = references.new()
    shown = reference.lower() if is_lower else reference
    checked = _line(-100_000, LineKind.TRANSFER, description=f"Manilla check {shown}")
    more = _line(-110_001, LineKind.TRANSFER, reference=references.new(), line_id="more")
    await story.imports(lambda lines: [*lines, checked, more])
    assert await story.findings() == [("only on the statement", None, -110_001)]
    assert len(await story.cases()) == 1
    assert await story.matched_by(reference) == {"reference"}
    day = await story.today()
    assert (day.checks, day.of_checks) == (1, Money("NGN", -100_000))


@every_kind
async def test_a_transfer_that_a_check_sends_is_recognized(story: ProviderStory) -> None:
    await story.send_check()
    await story.imports()
    assert await story.findings() == []
    day = await story.today()
    assert day.checks == day.lines > 0
