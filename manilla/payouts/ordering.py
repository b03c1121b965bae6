"""Previews and creates payouts for dashboard users, with the same rules as the API.

A preview shows the beneficiary, the fee and the remaining balance.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import msgspec

from manilla.audit import audit
from manilla.banks.nigeria import NigerianBank, with_code
from manilla.beneficiaries import beneficiary, methods
from manilla.beneficiaries.banks import Banks
from manilla.beneficiaries.beneficiary import AccountResolver, Beneficiary
from manilla.kit.database.connections import Database
from manilla.kit.money import Money, MoneyError
from manilla.kit.price import Price
from manilla.kit.ratelimit import RateTicket
from manilla.ledger.idempotency import Replayed
from manilla.merchants import availability
from manilla.merchants import queries as merchants
from manilla.merchants.directory import Caller
from manilla.methods.catalogue import Catalogue
from manilla.methods.method import Method, MethodKind
from manilla.payouts import rules
from manilla.payouts.initiate import PayoutInitiation, PayoutOrder
from manilla.platform.settings import CurrentSettings
from manilla.prices.book import PriceBook
from manilla.prices.price import Purpose
from manilla.providers.port import Bank, Direction, ResolvedAccount
from manilla.providers.rails import Rails
from manilla.routing import outcomes
from manilla.routing.deliveries import Deliveries
from manilla.routing.router import PayoutTarget, Router
from manilla.transfers import refusals

ODD_NUMBER = (
    "The last digit of this account number does not match the bank. Some banks issue such "
    "numbers, so please check the account name."
)


class AccountHolder(msgspec.Struct, frozen=True):
    """The holder of the beneficiary's account."""

    who: Beneficiary
    account_name: str | None  # None for a manual payout, because no provider resolves its account
    bank_name: str
    warnings: Sequence[str] = ()

    @property
    def bank(self) -> str:
        """The bank's name, with the code that the method uses for the bank."""
        return with_code(self.bank_name, self.who.fields.get(methods.BANK_CODE, self.bank_name))


class PayoutPreview(msgspec.Struct, frozen=True):
    method: Method
    holder: AccountHolder
    price: Price
    balance: Money

    @property
    def amount(self) -> Money:
        return self.price.amount

    @property
    def fee(self) -> Money:
        return self.price.fee

    @property
    def tax(self) -> Money:
        return Money(self.price.amount.currency, self.price.tax_minor)

    @property
    def total(self) -> Money:
        return self.price.debit

    @property
    def balance_after(self) -> Money:
        return self.balance - self.total


class PayoutPreviews:
    def __init__(
        self,
        db: Database,
        platform: CurrentSettings,
        catalogue: Catalogue,
        prices: PriceBook,
        rails: Rails,
        banks: Banks,
        resolver: AccountResolver,
        router: Router,
        deliveries: Deliveries,
    ) -> None:
        self._db = db
        self._platform = platform
        self._catalogue = catalogue
        self._prices = prices
        self._rails = rails
        self._banks = banks
        self._resolver = resolver
        self._router = router
        self._deliveries = deliveries

    def methods(self, caller: Caller) -> list[Method]:
        """Returns the payout methods for the caller's active wallets, automatic methods first."""
        offered = [
            method
            for currency in sorted(caller.currencies & caller.active_wallets)
            for method in self._catalogue.offered(MethodKind.WITHDRAW, currency, caller.environment)
        ]
        return sorted(offered, key=lambda method: not method.is_auto)

    def silent(self, caller: Caller, offered: Sequence[Method]) -> set[int]:
        """Returns the ids of methods that would reject a payout because their provider is down."""
        return {
            method.id
            for method in offered
            if not (method.is_manual or caller.is_sandbox) and self._is_down(caller, method)
        }

    def _is_down(self, caller: Caller, method: Method) -> bool:
        rails = [method]
        if method.is_auto:
            rails = self._catalogue.offered_rails(method, caller.environment)
        return all(self._rails.is_down(each.provider or "", Direction.PAY_OUT) for each in rails)

    def method(self, caller: Caller, method_id: int) -> Method:
        return rules.open_method(self._catalogue, caller, method_id)

    async def banks(self, caller: Caller, method: Method) -> list[Bank]:
        """Returns the provider's banks, or an empty list if it has no list or is down.

        The codes are the provider's. The names are from our registry if it contains the bank.
        """
        if method.provider is None:
            return []
        provider, is_sandbox = method.provider, caller.is_sandbox
        listed = await self._banks.of_rail(provider, is_sandbox=is_sandbox) or []
        known = partial(self._banks.name_at, provider, is_sandbox=is_sandbox)
        named = [Bank(bank.code, known(bank.code) or bank.name) for bank in listed]
        return sorted(named, key=lambda bank: bank.name)

    async def own_bank_code(self, caller: Caller, method: Method, text: str) -> str:
        """Returns the provider's own code for a bank name or code that a user typed."""
        if method.provider is None or not text:
            return text
        provider = method.provider
        return await self._banks.own_code(provider, text, is_sandbox=caller.is_sandbox)

    def bank_doubt(self, text: str) -> str | None:
        """Returns why a typed bank code does not identify one bank, or None if it does."""
        return self._banks.doubt(text)

    async def holder(self, caller: Caller, method: Method, given: dict[str, Any]) -> AccountHolder:
        availability.check(caller)  # only merchants that may create payouts can see account names
        return await self.holder_of_own(caller, method, given)

    async def holder_of_own(
        self, caller: Caller, method: Method, given: dict[str, Any]
    ) -> AccountHolder:
        """Resolves an account that the merchant declares as its own, even before approval."""
        who = beneficiary.read(method, given)
        if method.provider is None:
            return AccountHolder(who, None, who.fields[methods.MANUAL_BANK_NAME])
        account = await self._account(caller, method, who)
        is_odd = beneficiary.check_digit_fits(who.bank_code, who.account_number) is False
        return AccountHolder(
            who=who,
            account_name=account.account_name,
            bank_name=self._banks.name_at(
                method.provider, who.bank_code, is_sandbox=caller.is_sandbox
            )
            or who.bank_code,
            warnings=[
                *([ODD_NUMBER] if is_odd else []),
                *await self.failing(caller, method, [who.bank_code]),
            ],
        )

    async def account_name(self, caller: Caller, method: Method, given: dict[str, Any]) -> str:
        """Returns the account holder's name, if the method's provider resolves names."""
        availability.check(caller)
        return (await self._account(caller, method, beneficiary.read(method, given))).account_name

    async def _account(self, caller: Caller, method: Method, who: Beneficiary) -> ResolvedAccount:
        assert method.provider is not None
        if method.is_auto:
            return await self._resolve(caller, method, who)
        if caller.is_sandbox:
            return self._resolver.resolve_in_sandbox(method.provider, who)
        return await self._resolver.resolve(method.provider, who)

    async def failing(self, caller: Caller, method: Method, codes: Iterable[str]) -> list[str]:
        """Returns a warning for each bank to which the method's transfers currently fail."""
        if method.provider is None or caller.is_sandbox:
            return []
        known = partial(self._banks.bank_at, method.provider, is_sandbox=False)
        banks = {bank.code: bank for code in codes if (bank := known(code)) is not None}
        found = [await self._failing(caller, method, bank) for bank in banks.values()]
        return sorted(text for text in found if text)

    async def _failing(self, caller: Caller, method: Method, bank: NigerianBank) -> str | None:
        rails, where = [method.provider or ""], outcomes.ALL_RAILS
        if method.is_auto:
            offered = self._catalogue.offered_rails(method, caller.environment)
            rails = [
                each.provider
                for each in offered
                if each.provider and self._banks.code_at(each.provider, bank, is_sandbox=False)
            ]
        else:
            where = self._rails.credentials(rails[0]).title
        since = outcomes.all_failing_since(rails, bank.code, await self._deliveries.failing())
        if since is None:
            return None
        return outcomes.warning(bank.name, where, since, datetime.now(UTC))

    async def _resolve(self, caller: Caller, method: Method, who: Beneficiary) -> ResolvedAccount:
        """Resolves an account on the rail that would send a payout of the minimum amount."""
        currency, environment = method.currency, caller.environment
        target = PayoutTarget(
            amount=method.minimum,
            bank=await self._router.find_bank(who.bank_code, currency, environment),
            account_number=who.account_number,
            environment=caller.environment,
        )
        return (await self._router.route(target)).account

    async def preview(
        self, caller: Caller, method: Method, amount: Decimal, given: dict[str, Any]
    ) -> PayoutPreview:
        """Previews a payout. Runs the same checks, in the same order, as its creation."""
        rules.check(self._platform.now, caller, method, method.currency, datetime.now(UTC))
        try:
            money = Money.of(amount, method.currency)
        except MoneyError as error:
            raise refusals.PayoutFailed(str(error)) from None
        rules.check_amount(method, money)
        rules.check_limit(self._platform.now, caller, money)
        balance = await self.balance(caller, method.currency)
        price = self.price(caller, method, money)
        if balance < price.debit:
            raise refusals.InsufficientBalance(
                f"The wallet holds {balance}. This payout and its fee cost {price.debit}."
            )
        holder = await self.holder(caller, method, given)
        return PayoutPreview(method, holder, price, balance)

    def price(
        self, caller: Caller, method: Method, amount: Money, purpose: Purpose | None = None
    ) -> Price:
        return rules.price(self._prices, caller, method, amount, purpose)

    async def balance(self, caller: Caller, currency: str) -> Money:
        wallet = await merchants.wallet(self._db, caller.merchant_id, caller.environment, currency)
        return Money(currency, wallet.balance_minor if wallet else 0)


class _Answered(msgspec.Struct, frozen=True):
    trx_id: str


async def order(
    db: Database,
    initiation: PayoutInitiation,
    caller: Caller,
    wanted: PayoutOrder,
    ticket: RateTicket,
) -> str:
    """Creates the payout, writes the audit log and returns the payout's id."""
    trx_id = await place(initiation, caller, wanted, ticket)
    # The audit entry can be written separately, because the payout itself stores who ordered it.
    async with db.transaction() as connection:
        await audit.record(
            connection,
            "payout.order",
            f"payout:{trx_id}",
            merchant_id=caller.merchant_id,
            environment=caller.environment,
            ref_trx=wanted.ref_trx,
            amount=Money.of(wanted.payout_amount, wanted.currency_code),
        )
    return trx_id


async def place(
    initiation: PayoutInitiation, caller: Caller, wanted: PayoutOrder, ticket: RateTicket
) -> str:
    """Creates the payout and returns its id.

    For a repeated order with the same key, returns the id of the first payout.
    """
    assert wanted.ordered_by is not None
    answer = await initiation.initiate(caller, wanted, ticket)
    if isinstance(answer, Replayed):
        return msgspec.json.decode(answer.body, type=_Answered).trx_id
    return answer.trx_id
