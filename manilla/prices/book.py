"""Caches plans, their merchants, and tax rules, and computes prices from them."""

from collections.abc import Sequence
from datetime import UTC, datetime

from manilla.kit import changes
from manilla.kit.database.connections import Database
from manilla.kit.price import PriceTerms
from manilla.prices import price, store
from manilla.prices.price import Charged, PlanVersion, Priced, PriceDirection, TaxRule
from manilla.prices.store import ANY_MERCHANT, OWN, Assignment, Prices

_NOTHING = Prices()


class PriceBook:
    """Computes prices from plans and rules."""

    def __init__(self, prices: Prices) -> None:
        self.use(prices)

    def use(self, prices: Prices) -> None:
        self.prices = prices
        self._versions: dict[tuple[int, str], list[PlanVersion]] = {}
        for version in prices.versions:
            self._versions.setdefault((version.merchant_id, version.plan), []).append(version)
        self._assignments: dict[int, list[Assignment]] = {}
        for each in prices.assignments:
            self._assignments.setdefault(each.merchant_id, []).append(each)

    def charge(
        self, merchant_id: int, priced: Priced, otherwise: PriceTerms, at: datetime | None = None
    ) -> Charged:
        """Computes the price of a transaction. `otherwise` is the fee without a plan."""
        if self.is_empty:
            return Charged(otherwise.of(priced.amount), None)
        now = at or datetime.now(UTC)
        return price.charge(self.versions(merchant_id, now), self.rules(now), priced, otherwise)

    @property
    def is_empty(self) -> bool:
        """Whether this installation has neither plans nor taxes."""
        return self.prices == _NOTHING

    @property
    def has_taxes(self) -> bool:
        return bool(self.prices.rules)

    @property
    def has_exemptions(self) -> bool:
        return any(rule.content.exempt for rule in self.prices.rules)

    def terms(self, merchant_id: int, priced: Priced, otherwise: PriceTerms) -> PriceTerms:
        """Returns the terms of the line that now holds for such transactions."""
        found = price.find_line(self.versions(merchant_id, datetime.now(UTC)), priced)
        if found is None:
            return otherwise
        version, number = found
        return version.content.lines[number - 1].terms

    def versions(self, merchant_id: int, now: datetime) -> Sequence[PlanVersion]:
        """Returns what holds for a merchant: its exceptions, and the version of its plan."""
        plan = self.plan(merchant_id, now)
        of_both = (
            self._versions.get((merchant_id, OWN), ()),
            self._versions.get((ANY_MERCHANT, plan), ()) if plan else (),
        )
        found = [price.in_force(versions, now) for versions in of_both]
        return [each for each in found if each is not None]

    def has_ways(self, merchant_id: int, now: datetime) -> bool:
        """Whether the price of a payment depends on the way that the customer chooses."""
        return any(
            line.direction is PriceDirection.PAYMENT and (line.method or line.way)
            for version in self.versions(merchant_id, now)
            for line in version.content.lines
        )

    def plan(self, merchant_id: int, now: datetime) -> str | None:
        """Returns the name of the merchant's plan, or of the default plan."""
        for owner in (merchant_id, ANY_MERCHANT):
            started = [each for each in self._assignments.get(owner, ()) if each.starts_at <= now]
            if started:
                return max(started, key=lambda each: (each.starts_at, each.number)).plan
        return None

    def rules(self, now: datetime) -> Sequence[TaxRule]:
        return price.rules_in_force(self.prices.rules, now)


class CachedPrices(PriceBook):
    """The plans and rules in the database, at most a second out of date."""

    def __init__(self, db: Database, watch: changes.ChangeWatch) -> None:
        super().__init__(_NOTHING)
        self._db = db
        watch.follow(changes.PRICES, self._refresh)

    async def _refresh(self, _known_version: int) -> None:
        self.use(await store.load(self._db))
