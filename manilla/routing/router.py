"""Finds a rail for a payout. Verifies the account on the best rail, or else on the next rail."""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager

import msgspec

from manilla.banks.nigeria import NigerianBank
from manilla.banks.registry import AmbiguousBankCode, BankRegistry
from manilla.beneficiaries import beneficiary, methods
from manilla.beneficiaries.banks import Banks
from manilla.beneficiaries.beneficiary import AccountResolver, Beneficiary
from manilla.kit import time_limits
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.methods.catalogue import Catalogue
from manilla.methods.method import Method
from manilla.providers.port import Direction, ResolvedAccount
from manilla.providers.rails import Rails
from manilla.routing.choice import RailSnapshot, RouteDecision, RoutingSnapshot, SkipReason, choose
from manilla.routing.deliveries import Deliveries
from manilla.routing.funds import ProviderFunds
from manilla.transfers import refusals

# Yields whether the provider in the argument may be called. See `ProviderSlots.hold`.
HoldPlace = Callable[[str], AbstractAsyncContextManager[bool]]


def _without_limit(_provider: str) -> AbstractAsyncContextManager[bool]:
    return contextlib.nullcontext(enter_result=True)


class PayoutTarget(msgspec.Struct, frozen=True):
    """The amount to pay and the beneficiary's account."""

    amount: Money
    bank: NigerianBank
    account_number: str
    environment: Environment
    account_names: tuple[str, ...] = ()  # the account names that earlier rails resolved


class PayoutRoute(msgspec.Struct, frozen=True):
    """The rail that sends a payout, and the rail's data for the beneficiary's account."""

    decision: RouteDecision
    provider: str
    bank_code: str
    account: ResolvedAccount


class Router:
    def __init__(
        self,
        catalogue: Catalogue,
        rails: Rails,
        registry: BankRegistry,
        banks: Banks,
        resolver: AccountResolver,
        funds: ProviderFunds,
        deliveries: Deliveries,
    ) -> None:
        self._catalogue = catalogue
        self._rails = rails
        self._registry = registry
        self._banks = banks
        self._resolver = resolver
        self._funds = funds
        self._deliveries = deliveries

    async def route(
        self,
        target: PayoutTarget,
        tried: Collection[str] = (),
        hold_place: HoldPlace = _without_limit,
    ) -> PayoutRoute:
        """Returns a rail that can send the payout, and the account that this rail resolved.

        Skips a rail whose provider has no free slot (`hold_place`). If no other rail can send the
        payout, raises `ProviderBusy`.
        """
        try:
            async with asyncio.timeout(time_limits.current.route_seconds):
                return await self._route(target, tried, hold_place)
        except TimeoutError:
            raise refusals.ProviderUnavailable from None

    def bank(self, code: str, at: str | None = None) -> NigerianBank:
        """Returns the bank that the code identifies at this provider, or at any provider."""
        try:
            bank = self._registry.bank_at(at, code) if at else None
            bank = bank or self._registry.find(code)
        except AmbiguousBankCode as error:
            raise refusals.UnknownBank(error.text) from None
        if bank is None:
            raise refusals.UnknownBank(f"{code} is not the code of a bank that we know.")
        return bank

    async def find_bank(self, code: str, currency: str, environment: Environment) -> NigerianBank:
        """Works like `bank`, but loads the rails' bank lists before it rejects a code."""
        try:
            return self.bank(code)
        except refusals.UnknownBank:
            if environment is Environment.SANDBOX:
                raise
        await self._request_lists(self._catalogue.rails(currency))
        return self.bank(code)

    async def _route(
        self, target: PayoutTarget, tried: Collection[str], hold_place: HoldPlace
    ) -> PayoutRoute:
        snapshot, is_busy = await self._snapshot(target, tried), False
        while True:
            decision = choose(snapshot)
            if decision.provider is None:
                raise refusals.ProviderBusy if is_busy else _refusal(decision, target)
            async with hold_place(decision.provider) as has_place:
                is_busy |= not has_place
                found: PayoutRoute | SkipReason = SkipReason.UNVERIFIED
                if has_place:
                    found = await self._prepare(target, decision)
            if isinstance(found, PayoutRoute):
                return found
            snapshot = snapshot.with_problem(decision.provider, found)

    async def _prepare(
        self, target: PayoutTarget, decision: RouteDecision
    ) -> PayoutRoute | SkipReason:
        """Verifies the account on the chosen rail, and checks the rail's balance."""
        provider = decision.provider or ""
        code = self._code_at(provider, target) or ""
        try:
            account = await self._resolve(target, provider, code)
            if target.environment is Environment.PRODUCTION:
                await self._funds.check(provider, target.amount)
        except refusals.ProviderInsufficientBalance:
            if target.environment is Environment.SANDBOX:
                raise
            return SkipReason.BALANCE
        except refusals.UnknownBank:
            return SkipReason.UNKNOWN_BANK  # a different rail may know the bank
        except refusals.InvalidBeneficiary:
            raise
        except Refusal:
            return SkipReason.UNVERIFIED
        # Two different names can both match a shorter name, so compare with all earlier names.
        name = account.account_name
        if not all(beneficiary.names_agree(each, name) for each in target.account_names):
            return SkipReason.OTHER_NAME
        return PayoutRoute(decision, provider, code, account)

    async def _resolve(self, target: PayoutTarget, provider: str, code: str) -> ResolvedAccount:
        fields = {methods.BANK_CODE: code, methods.ACCOUNT_NUMBER: target.account_number}
        if target.environment is Environment.SANDBOX:
            return self._resolver.resolve_in_sandbox(provider, Beneficiary(fields))
        return await self._resolver.resolve(provider, Beneficiary(fields))

    async def _snapshot(self, target: PayoutTarget, tried: Collection[str]) -> RoutingSnapshot:
        rails = self._catalogue.rails(target.amount.currency)
        is_real = target.environment is Environment.PRODUCTION
        if is_real:
            # The current bank lists of these rails may contain the bank.
            await self._request_lists(
                [each for each in rails if self._code_at(each.provider or "", target) is None]
            )
        found = [self._rail(method, target, was_tried=method.provider in tried) for method in rails]
        if is_real:
            found = await self._with_experience(found, target)
        return RoutingSnapshot(
            amount_minor=target.amount.minor, bank=target.bank.code, rails=tuple(found)
        )

    async def _with_experience(
        self, rails: Sequence[RailSnapshot], target: PayoutTarget
    ) -> list[RailSnapshot]:
        """Adds each rail's fee, and whether the rail is failing, to the snapshots."""
        failing = await self._deliveries.failing()
        fees = await self._funds.fees_minor(target.amount.currency)
        return [
            msgspec.structs.replace(
                rail,
                is_failing=(rail.provider, target.bank.code) in failing,
                fee_minor=fees.get(rail.provider, 0),
            )
            for rail in rails
        ]

    async def _request_lists(self, rails: Sequence[Method]) -> None:
        """Loads these rails' bank lists unless they are cached, and stores the bank codes."""
        requests = [
            asyncio.ensure_future(self._request_list(each.provider or "")) for each in rails
        ]
        if requests:
            _, late = await asyncio.wait(requests, timeout=time_limits.current.bank_list_seconds)
            for task in late:
                task.cancel()

    async def _request_list(self, provider: str) -> None:
        await self._banks.of_rail(provider, is_sandbox=False)
        await self._banks.learned()

    def _code_at(self, provider: str, target: PayoutTarget) -> str | None:
        is_sandbox = target.environment is Environment.SANDBOX
        return self._banks.code_at(provider, target.bank, is_sandbox=is_sandbox)

    def _rail(self, method: Method, target: PayoutTarget, *, was_tried: bool) -> RailSnapshot:
        provider = method.provider or ""
        is_sandbox = target.environment is Environment.SANDBOX
        return RailSnapshot(
            provider=provider,
            priority=method.position,
            is_offered=self._rails.is_offered(provider, Direction.PAY_OUT, target.environment),
            is_draining=self._catalogue.is_drained(method, target.environment),
            is_down=not is_sandbox and self._rails.is_down(provider, Direction.PAY_OUT),
            bank_code=self._code_at(provider, target),
            minimum_minor=method.minimum.minor,
            maximum_minor=method.max_minor,
            balance_minor=self._funds.cached_minor(provider, target.amount.currency),
            was_tried=was_tried,
        )


def _refusal(decision: RouteDecision, target: PayoutTarget) -> Refusal:
    """Returns the error for a payout that no rail can send."""
    reasons = set(decision.skipped.values())
    bank, other_amount = target.bank.name, _other_amount(decision, target.amount)
    if SkipReason.BALANCE in reasons:
        return refusals.ProviderInsufficientBalance()
    if reasons & {SkipReason.DOWN, SkipReason.UNVERIFIED, SkipReason.DRAINING}:
        what = f"pay {target.amount} to {bank}" if other_amount else f"pay to {bank}"
        return refusals.ProviderUnavailable(
            f"No provider can {what} right now. Nothing was debited: try again later{other_amount}."
        )
    if other_amount:
        return refusals.AmountOutOfRange(
            f"No provider accepts this amount. Nothing was debited: try again{other_amount}."
        )
    if SkipReason.UNKNOWN_BANK in reasons:
        return refusals.UnknownBank(f"No provider can pay to {bank}.")
    return refusals.GatewayNotConfigured()


def _other_amount(decision: RouteDecision, amount: Money) -> str:
    """Returns a text with the amount limit of the rails that were skipped because of the amount."""
    skipped = [
        rail
        for rail in decision.snapshot.rails
        if decision.skipped.get(rail.provider) is SkipReason.AMOUNT
    ]
    minimums = [rail.minimum_minor for rail in skipped if amount.minor < rail.minimum_minor]
    maximums = [rail.maximum_minor for rail in skipped if rail.maximum_minor is not None]
    if minimums:
        return f", or with at least {Money(amount.currency, min(minimums))}"
    return f", or with at most {Money(amount.currency, max(maximums))}" if maximums else ""
