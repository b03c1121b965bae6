"""Computes what stored transactions would cost by a price plan."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from operator import attrgetter

import msgspec

from manilla.kit.database.rows import Reads
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.kit.price import PriceTerms
from manilla.ledger import trx_ids
from manilla.margin import runs, transactions
from manilla.margin.figures import MarginFilter
from manilla.margin.runs import Computed, Run, RunLimit
from manilla.margin.transactions import Traded, TradedTransaction
from manilla.merchants.merchants import CommissionBearer
from manilla.prices import price
from manilla.prices.checks import BadPrice, check_plan
from manilla.prices.input import read_lines
from manilla.prices.price import PlanTerms, PlanVersion, Priced, PriceDirection, Way

# A plan with this name says what a provider takes. It is no merchant's plan.
PROVIDER_PLAN = "provider-"
TRIED = "tried"  # the name of a plan that is only tried


class NoPlan(Refusal):
    status, code = 400, "VALIDATION_FAILED"
    message = "This is not a price plan."


def read(text: str) -> PlanVersion:
    """Parses a plan to try: its lines as CSV, as they are entered, or the whole plan as JSON."""
    try:
        if text.lstrip().startswith("{"):
            content = msgspec.json.decode(text, type=PlanTerms)
        else:
            content = PlanTerms(title=TRIED, lines=read_lines(text))
        check_plan(TRIED, content)
    except (BadPrice, msgspec.MsgspecError) as error:
        raise NoPlan.at("text", f"{error}") from None
    if not content.lines:
        raise NoPlan.at("text", "A plan has at least one line.")
    return PlanVersion(TRIED, 0, datetime.now(UTC), content)


async def try_plan(db: Reads, wanted: MarginFilter, version: PlanVersion, limit: RunLimit) -> Run:
    """Returns what the transactions of a period were charged, and would cost by a plan."""
    pages, is_wanted = transactions.pages(db, wanted), transactions.matches(wanted)
    computed = by_version(version)
    return await runs.compare(pages, is_wanted, attrgetter("charged_minor"), computed, limit)


async def provider_fees(
    db: Reads, wanted: MarginFilter, versions: Sequence[PlanVersion], limit: RunLimit
) -> Run:
    """Returns what providers took, and should have taken by their plans."""
    matches, computed = transactions.matches(wanted), by_providers(versions)

    def is_wanted(each: TradedTransaction) -> bool:
        return bool(each.provider) and matches(each)

    pages = transactions.pages(db, wanted)
    actual = attrgetter("taken_minor")
    return await runs.compare(pages, is_wanted, actual, computed, limit, by_merchant=False)


def by_version(version: PlanVersion) -> Computed:
    """Returns what each transaction would have cost by this version of a plan."""
    return _computed(lambda _each: version, _as_merchants_pay)


def by_providers(versions: Sequence[PlanVersion]) -> Computed:
    """Returns what each provider should have taken, by its plan when the payment was created."""
    plans: dict[str, list[PlanVersion]] = {}
    for version in versions:
        if version.plan.startswith(PROVIDER_PLAN) and not version.merchant_id:
            plans.setdefault(version.plan.removeprefix(PROVIDER_PLAN), []).append(version)

    def version_of(each: TradedTransaction) -> PlanVersion | None:
        created = trx_ids.moment_of(each.trx_id)
        if each.handled_minor is None or created is None:
            return None
        return price.in_force(plans.get(each.provider or "", ()), created)

    return _computed(version_of, _as_providers_take)


def _computed(
    version_of: Callable[[TradedTransaction], PlanVersion | None],
    described: Callable[[TradedTransaction], Priced],
) -> Computed:
    """Finds a line once for all transactions that have the same line, because plans are long."""
    found: dict[object, PriceTerms | None] = {}

    def compute(each: TradedTransaction) -> int | None:
        version = version_of(each)
        if version is None:
            return None
        priced = described(each)
        key = (
            *(version.plan, version.version, each.environment, each.currency),
            *(priced.direction, priced.method, priced.way),
        )
        if key not in found:
            line = price.find_line((version,), priced)
            found[key] = None if line is None else version.content.lines[line[1] - 1].terms
        terms = found[key]
        return None if terms is None else terms.of(priced.amount).minor

    return compute


def _as_merchants_pay(each: TradedTransaction) -> Priced:
    """If the customer pays the price, it is known before the way to pay: the line for any way.

    The price of a saved way is known to whoever pays it.
    """
    is_chosen = each.bearer is CommissionBearer.MERCHANT or each.is_again
    direction = PriceDirection.SETTLEMENT if each.is_settlement else PriceDirection(each.kind)
    return Priced(
        direction=direction,
        environment=each.environment,
        amount=each.amount,
        method=each.method_code if is_chosen else None,
        way=_way(each) if is_chosen else None,
    )


def _as_providers_take(each: TradedTransaction) -> Priced:
    return Priced(
        direction=PriceDirection(each.kind),
        environment=each.environment,
        amount=Money(each.currency, each.handled_minor or 0),
        method=each.method_code,
        way=_way(each),
    )


def _way(each: TradedTransaction) -> Way | None:
    if each.kind is Traded.PAYOUT:
        return None
    return each.channel or Way.HOSTED
