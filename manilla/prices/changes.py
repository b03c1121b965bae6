"""Changes of plans and taxes by administrators. In production mode, another one must approve them.

Each change starts in the future. Without a start, it starts once all processes know of it.
"""

from abc import ABCMeta, abstractmethod
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from manilla.audit import audit
from manilla.audit.actor import current
from manilla.kit import changes
from manilla.kit.database.connections import Connection
from manilla.merchants import merchants
from manilla.prices import checks, store, wording
from manilla.prices.checks import BadPrice
from manilla.prices.price import PlanTerms, PlanVersion, PriceDirection, TaxRule, TaxTerms
from manilla.prices.store import ANY_MERCHANT, OWN, Assignment, Prices

# Until then, a process may still compute prices without the change.
KNOWN_AFTER = timedelta(seconds=3)
AHEAD_MAX = timedelta(days=3 * 365)


class _AbstractStruct(msgspec.StructMeta, ABCMeta):
    """The metaclass of a struct with abstract methods."""


class PriceChange(msgspec.Struct, frozen=True, kw_only=True, metaclass=_AbstractStruct):
    starts_at: datetime | None = None  # None: as soon as it is applied

    @property
    @abstractmethod
    def subject(self) -> str:
        """What the audit log and the approval name."""

    @property
    def owner_id(self) -> int | None:
        """The merchant that the change is about, or None if it is about several."""
        return None

    def start(self) -> datetime:
        now = datetime.now(UTC)
        if self.starts_at is None:
            return now + KNOWN_AFTER
        if not now < self.starts_at <= now + AHEAD_MAX:
            raise BadPrice("The start must be in the future, and within three years.")
        return self.starts_at

    @abstractmethod
    async def check(self, connection: Connection) -> None:
        """Raises an error if the change is not valid now."""

    async def apply(self, connection: Connection) -> None:
        """Announces the change first, which also locks out other changes."""
        await changes.announce(connection, changes.PRICES)
        await self.check(connection)
        await self.write(connection, await store.load(connection), current.get().name)
        await audit.record(
            connection,
            *(f"{self.__struct_config__.tag}.change", self.subject),
            merchant_id=self.owner_id,
            **self.describe(),
        )

    @abstractmethod
    async def write(self, connection: Connection, prices: Prices, by: str) -> None:
        """Writes the change, which `check` has accepted."""

    def describe(self) -> dict[str, Any]:
        """Returns what an approver is shown."""
        return {"starts": "when approved" if self.starts_at is None else self.starts_at}


class PlanChange(PriceChange, frozen=True, kw_only=True, tag="price_plan"):
    """A new version of a plan, or of a merchant's exceptions."""

    plan: str
    content: PlanTerms
    after: int = 0  # the last version, which the user has changed
    merchant_id: int = ANY_MERCHANT

    @property
    def subject(self) -> str:
        return _subject(self.plan, self.merchant_id)

    @property
    def owner_id(self) -> int | None:
        return self.merchant_id or None

    async def check(self, connection: Connection) -> None:
        self.start()
        checks.check_plan(self.plan, self.content)
        if (self.plan == OWN) != (self.merchant_id != ANY_MERCHANT):
            raise BadPrice(f"The code {OWN!r} is for the exceptions of merchants.")
        if self.merchant_id:
            await merchants.get(connection, self.merchant_id)
        await _check_methods(connection, self.content)
        if last_version(await store.load(connection), self.plan, self.merchant_id) != self.after:
            raise BadPrice("Somebody else has changed these prices. Reload the page.")

    async def write(self, connection: Connection, prices: Prices, by: str) -> None:
        new = PlanVersion(
            self.plan, self.after + 1, self.start(), self.content, merchant_id=self.merchant_id
        )
        await store.add_version(connection, new, by)

    def describe(self) -> dict[str, Any]:
        lines = {
            f"line {number}": wording.of_line(line)
            for number, line in enumerate(self.content.lines, 1)
        }
        return {
            "plan": self.plan,
            "title": self.content.title,
            "version": self.after + 1,
            "returns_commission": self.content.returns_commission,
            **lines,
            **super().describe(),
        }


class PlanWithdrawal(PriceChange, frozen=True, kw_only=True, tag="price_withdrawal"):
    """Withdraws a version that has not started."""

    plan: str
    version: int
    merchant_id: int = ANY_MERCHANT

    @property
    def subject(self) -> str:
        return _subject(self.plan, self.merchant_id)

    @property
    def owner_id(self) -> int | None:
        return self.merchant_id or None

    async def check(self, connection: Connection) -> None:
        self._find(await store.load(connection))

    async def write(self, connection: Connection, prices: Prices, by: str) -> None:
        await store.add_withdrawal(connection, self._find(prices), by)

    def _find(self, prices: Prices) -> PlanVersion:
        """Returns the version. Raises an error if it cannot be withdrawn now."""
        versions = versions_of(prices, self.plan, self.merchant_id)
        found = next((each for each in versions if each.version == self.version), None)
        if found is None:
            raise BadPrice(f"There is no version {self.version} of these prices.")
        if found.is_withdrawn:
            raise BadPrice(f"Version {self.version} is withdrawn already.")
        # A process that does not know of the withdrawal yet must not use the version.
        if found.starts_at <= datetime.now(UTC) + KNOWN_AFTER:
            raise BadPrice(f"Version {self.version} has started. Add another version instead.")
        return found

    def describe(self) -> dict[str, Any]:
        return {"plan": self.plan, "withdrawn version": self.version}


class PlanAssignment(PriceChange, frozen=True, kw_only=True, tag="price_assignment"):
    """Which plan a merchant has, or all merchants without an assignment of their own."""

    plan: str | None
    merchant_id: int = ANY_MERCHANT

    @property
    def subject(self) -> str:
        return _subject("default", self.merchant_id)

    @property
    def owner_id(self) -> int | None:
        return self.merchant_id or None

    async def check(self, connection: Connection) -> None:
        self.start()
        if self.merchant_id:
            await merchants.get(connection, self.merchant_id)
        known = await store.load(connection)
        if self.plan is not None and not last_version(known, self.plan, ANY_MERCHANT):
            raise BadPrice(f"There is no plan {self.plan!r}.")

    async def write(self, connection: Connection, prices: Prices, by: str) -> None:
        numbers = [
            each.number for each in prices.assignments if each.merchant_id == self.merchant_id
        ]
        number = max(numbers, default=0) + 1
        new = Assignment(self.merchant_id, number, self.plan, self.start())
        await store.add_assignment(connection, new, by)

    def describe(self) -> dict[str, Any]:
        whom = self.merchant_id or "merchants without a plan of their own"
        return {
            "merchant": whom,
            "plan": self.plan or "none",
            **super().describe(),
        }


class TaxAddition(PriceChange, frozen=True, kw_only=True, tag="tax_rule"):
    """A new rule of a tax. It replaces the rule for the same transactions."""

    name: str
    content: TaxTerms

    @property
    def subject(self) -> str:
        return f"tax:{self.name}"

    async def check(self, connection: Connection) -> None:
        checks.check_tax(self.name, self.content)
        known = await store.load(connection)
        checks.check_new_rule(known.rules, self._rule(), datetime.now(UTC))

    def _rule(self) -> TaxRule:
        return TaxRule(self.name, 0, self.start(), self.content)

    async def write(self, connection: Connection, prices: Prices, by: str) -> None:
        await store.add_rule(connection, self._rule(), by)

    def describe(self) -> dict[str, Any]:
        return {
            "tax": self.name,
            **wording.describe_tax(self.content),
            **super().describe(),
        }


def versions_of(prices: Prices, plan: str, merchant_id: int) -> list[PlanVersion]:
    """Returns the versions of a plan, or of a merchant's exceptions, oldest first."""
    return [
        each for each in prices.versions if (each.merchant_id, each.plan) == (merchant_id, plan)
    ]


def last_version(prices: Prices, plan: str, merchant_id: int) -> int:
    versions = versions_of(prices, plan, merchant_id)
    return versions[-1].version if versions else 0


def _subject(plan: str, merchant_id: int) -> str:
    return f"merchant:{merchant_id}" if merchant_id else f"price_plan:{plan}"


async def _check_methods(connection: Connection, content: PlanTerms) -> None:
    rows = await connection.records("SELECT code, kind, currency FROM method")
    known: Mapping[str, Any] = {row["code"]: row for row in rows}
    for line in content.lines:
        if line.method is None:
            continue
        kind = "deposit" if line.direction is PriceDirection.PAYMENT else "withdraw"
        row = known.get(line.method)
        if row is None or (row["kind"], row["currency"]) != (kind, line.currency):
            raise BadPrice(f"There is no {kind} method {line.method!r} in {line.currency}.")
