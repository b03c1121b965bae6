"""Computes what can be settled now: the account, and the amount within all limits."""

from datetime import UTC, datetime
from functools import partial

import msgspec

from manilla.bulk import coverage
from manilla.kit.clock import LAGOS, start_of_day
from manilla.kit.database.connections import Database
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.kit.price import Price
from manilla.ledger.scope import Tenant
from manilla.merchants import limits
from manilla.merchants.directory import Caller, Directory
from manilla.methods.catalogue import Catalogue
from manilla.methods.method import Method, MethodKind
from manilla.payouts import figures, rules
from manilla.platform.settings import CurrentSettings, LimitKind
from manilla.prices.book import PriceBook
from manilla.prices.price import Purpose
from manilla.settlements import amounts
from manilla.settlements.accounts import SettlementAccount, settlement_account
from manilla.settlements.plans import SettlementPlan

NO_ACCOUNT = "Set a settlement account first."
NO_METHOD = "The payout method of the settlement account no longer exists."
NOTHING = "The balance minus the reserve is too small for a settlement."
DAY_LIMIT = "Today's payouts have reached your daily limit of {}."


class NotSettled(Refusal):
    code = "SETTLEMENT_FAILED"
    message = "The balance cannot be settled now."


class SettlementOffer(msgspec.Struct, frozen=True):
    """A settlement that is possible now."""

    account: SettlementAccount
    method: Method
    price: Price
    balance: Money
    is_partial: bool  # whether a limit keeps part of the balance in the wallet

    @property
    def amount(self) -> Money:
        return self.price.amount

    @property
    def fee(self) -> Money:
        return self.price.fee

    @property
    def total(self) -> Money:
        return self.price.debit

    @property
    def tax(self) -> Money:
        return Money(self.amount.currency, self.price.tax_minor)


class SettlementOffers:
    def __init__(
        self,
        db: Database,
        platform: CurrentSettings,
        directory: Directory,
        catalogue: Catalogue,
        prices: PriceBook,
    ) -> None:
        self._db = db
        self._platform = platform
        self._directory = directory
        self._catalogue = catalogue
        self._prices = prices

    async def find(self, plan: SettlementPlan) -> SettlementOffer:
        """Returns the settlement that is possible now, by this plan or without a plan.

        The reserve, and the amount that confirmed bulk files will still debit, stay in the wallet.
        The amount is within the method's maximum, the merchant's limit per payout and the rest of
        its daily limit.
        """
        tenant = Tenant(plan.merchant_id, plan.environment)
        account = await self.account(tenant, plan.currency)
        method = self.method(account)
        caller = await self._directory.of(tenant.environment, tenant.merchant_id)
        balance = await coverage.not_promised(self._db, tenant, plan.currency)
        available = balance - plan.reserve
        price = partial(rules.price, self._prices, caller, method, purpose=Purpose.OWN_ACCOUNT)
        limit = await self._limit(caller, method)
        amount = amounts.largest(method, available, limit, price)
        if amount is None:
            raise NotSettled(NOTHING)
        is_partial = amounts.is_partial(method, available, amount, price)
        return SettlementOffer(account, method, price(amount), balance, is_partial)

    async def available(self, plan: SettlementPlan) -> Money:
        """Returns the balance minus the reserve and the pending debits of bulk files."""
        tenant = Tenant(plan.merchant_id, plan.environment)
        return await coverage.not_promised(self._db, tenant, plan.currency) - plan.reserve

    async def _limit(self, caller: Caller, method: Method) -> Money | None:
        """Returns the largest payout within the merchant's limits, or None if unlimited."""
        settings, currency = self._platform.now, method.currency
        one = limits.of(settings, caller, LimitKind.PAYOUT, currency)
        day = limits.of(settings, caller, LimitKind.DAILY_PAYOUT, currency)
        if day is None:
            return one
        tenant = Tenant(caller.merchant_id, caller.environment)
        today = start_of_day(datetime.now(UTC).astimezone(LAGOS).date())
        rest = day - await figures.ordered_since(self._db, tenant, currency, today)
        if rest < method.minimum:
            raise NotSettled(DAY_LIMIT.format(day))
        return rest if one is None else min(one, rest)

    async def account(self, tenant: Tenant, currency: str) -> SettlementAccount:
        found = await settlement_account(self._db, tenant.merchant_id, tenant.environment, currency)
        if found is None:
            raise NotSettled(NO_ACCOUNT)
        return found

    def method(self, account: SettlementAccount) -> Method:
        found = self._catalogue.by_code(MethodKind.WITHDRAW, account.method_code)
        if found is None:
            raise NotSettled(NO_METHOD)
        return found
