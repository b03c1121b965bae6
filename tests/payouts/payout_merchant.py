"""A merchant that sends payouts, and methods that read its payouts."""

import contextlib
import itertools
import json
import time
from collections.abc import AsyncIterator
from datetime import datetime
from decimal import Decimal
from typing import Any

import msgspec

from manilla.api import v1
from manilla.api.kernel import MerchantApi
from manilla.beneficiaries.banks import Banks
from manilla.beneficiaries.beneficiary import AccountResolver
from manilla.kit.jobs import Job
from manilla.kit.money import Money
from manilla.ledger.timeline import TimelineEvent, steps
from manilla.merchants import merchants, wallets
from manilla.merchants.merchants import MerchantUpdate
from manilla.methods import catalogue
from manilla.methods.method import Method, MethodKind
from manilla.payouts import store
from manilla.payouts.initiate import PayoutInitiation
from manilla.payouts.payout import Payout
from manilla.platform import settings as platform
from manilla.providers import credentials
from manilla.routing.deliveries import Deliveries
from manilla.routing.funds import ProviderFunds
from manilla.routing.router import Router
from manilla.services import Services
from manilla.transfers.sending import Mark
from tests.conftest import serving
from tests.support import kinds
from tests.support.client import Merchant, Reply, Site
from tests.support.provider_simulator import ProviderSimulator, forget_outcomes

INITIATE, VERIFY = "/api/v1/initiate-payout", "/api/v1/verify-payout/"
CODES = {rail: kind.transfer_method for rail, kind in kinds.BY_RAIL.items()}
RAILS = {rail: CODES[rail] for rail in kinds.SEEDED}
BANKS = {rail: kind.bank_code for rail, kind in kinds.BY_RAIL.items()}
MANUAL = "platform"
ACCOUNT = "0123456789"

_numbers = itertools.count(time.time_ns())
_accounts = itertools.count(1_000_000_001)


def new_reference() -> str:
    return f"PAYOUT-{next(_numbers)}"


def new_account() -> str:
    """Returns a new account number, whose holder's name has not been resolved yet."""
    return str(next(_accounts))


def exact(reply: Reply) -> Any:
    """Returns the response's JSON with exact decimals instead of floats."""
    return json.loads(reply.body, parse_float=Decimal)


def _api_of(services: Services) -> MerchantApi:
    """Returns the merchant API without the pages, which are slow to build."""
    return MerchantApi(services, v1.endpoints(services))


def _with_empty_caches(services: Services) -> Services:
    """Returns the same services with empty caches of banks, account names and balances."""
    rails, methods = services.rails, services.methods
    banks = Banks(services.db, rails, methods, services.registry)
    resolver = AccountResolver(rails, banks)
    funds = ProviderFunds(services.db, rails)
    deliveries = Deliveries(services.db, services.registry)
    router = Router(methods, rails, services.registry, banks, resolver, funds, deliveries)
    payouts = PayoutInitiation(
        services.db, services.platform, methods, services.prices, rails, resolver, funds, router
    )
    return msgspec.structs.replace(
        services, banks=banks, resolver=resolver, router=router, payouts=payouts
    )


class PayoutMerchant:
    def __init__(
        self, services: Services, simulator: ProviderSimulator, merchant: Merchant
    ) -> None:
        self.services = services
        self.simulator = simulator
        self.merchant = merchant
        self._has_begun = False

    def from_new_ip(self) -> "PayoutMerchant":
        """Returns the same merchant with a new IP address, which has a separate rate limit."""
        site = self.merchant.site.from_new_ip()
        return PayoutMerchant(
            self.services, self.simulator, msgspec.structs.replace(self.merchant, site=site)
        )

    @contextlib.asynccontextmanager
    async def at_second_process(self) -> AsyncIterator["PayoutMerchant"]:
        """The same merchant and IP address, calling a second API process with empty caches."""
        db = self.services.db
        before = len(db._kept)
        try:
            async with serving(_api_of(_with_empty_caches(self.services))) as port:
                site = Site(port, self.merchant.site.address)
                merchant = msgspec.structs.replace(self.merchant, site=site)
                yield PayoutMerchant(self.services, self.simulator, merchant)
        finally:
            for kept in db._kept[before:]:
                await kept.close()

    async def _begin(self) -> None:
        """Postpones the jobs of earlier tests, because they would call this test's providers.

        Also deletes the rail statistics of earlier tests.
        """
        if self._has_begun:
            return
        self._has_begun = True
        health = self.services.rails.health
        for rail in health.rails_down():
            await health.mark_up(rail)
        await forget_outcomes(self.services)
        await self.services.db.execute(
            "UPDATE job SET due_at = 'infinity' WHERE kind = 'transfer' AND merchant_id <> $1",
            self.merchant.new.id,
        )

    async def method_id(self, rail: str = "a") -> int:
        code = CODES.get(rail, rail)
        method_id: int = await self.services.db.value("SELECT id FROM method WHERE code = $1", code)
        return method_id

    async def order(self, rail: str = "a", **changed: Any) -> dict[str, Any]:
        """Returns a valid payout request. A field set to None is omitted."""
        await self._begin()
        beneficiary = {"bank_code": BANKS.get(rail), "account_number": ACCOUNT}
        if rail == MANUAL:
            beneficiary = {"Bank Name": "GTBank", "Account Number": ACCOUNT}
        fields = {
            "payout_amount": 1000,
            "currency_code": "NGN",
            "ref_trx": new_reference(),
            "ipn_url": "https://shop.example/ipn",
            "withdraw_method_id": await self.method_id(rail),
            "beneficiary": beneficiary,
            **changed,
        }
        return {name: value for name, value in fields.items() if value is not None}

    async def order_of(self, amount: str, rail: str = "a", **changed: Any) -> bytes:
        """Returns a request body with exactly the given digits as the amount."""
        text = json.dumps(await self.order(rail, payout_amount="@", **changed))
        return text.replace('"@"', amount).encode()

    async def send(self, body: Any, **headers: str | None) -> Reply:
        """Requests a payout. Keyword arguments such as `Idempotency_Key="x"` set headers."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.merchant.call("POST", INITIATE, raw, **headers)

    async def ask(self, rail: str = "a", **changed: Any) -> Reply:
        return await self.merchant.post(INITIATE, await self.order(rail, **changed))

    async def pay_out(self, rail: str = "a", **changed: Any) -> str:
        reply = await self.ask(rail, **changed)
        assert reply.status == 200, reply.body
        trx_id: str = reply.json["trx_id"]
        return trx_id

    async def fund(self, amount: str) -> None:
        wallet = self.merchant.new.id, self.merchant.environment
        money = Money.of(amount, "NGN")
        await wallets.fund(self.services.db, *wallet, money, "for a test")

    async def change(self, wanted: MerchantUpdate) -> None:
        """Changes the merchant and reloads the cache, so that the change applies immediately."""
        db, keyring = self.services.db, self.services.keyring
        await merchants.change(db, keyring, self.merchant.new.id, wanted)
        await self.services.directory._refresh(0)

    async def verify(self, trx_id: str) -> Reply:
        return await self.merchant.get(VERIFY + trx_id)

    async def payout(self, trx_id: str) -> Payout:
        found = await store.payout(self.services.db, self.merchant.new.id, trx_id)
        assert found is not None
        return found

    async def until(self, trx_id: str, status: str) -> None:
        async def is_so() -> bool:
            return (await self.payout(trx_id)).status == status

        await self.simulator.until(is_so)

    async def mark_of(self, job: Job, sent_at: datetime | None = None) -> Mark:
        """Returns a worker's request to mark the job's payout as sent on rail A."""
        destination = (await self.payout(job.subject)).destination
        return Mark(job, sent_at, "providera", destination=destination)

    async def check_now(self, trx_id: str) -> None:
        await self.simulator.run_job_now("transfer", trx_id)

    async def check_until(self, trx_id: str, status: str) -> None:
        """Repeats the status query, as if time had passed, until the payout has this status."""

        async def is_so() -> bool:
            await self.check_now(trx_id)
            return (await self.payout(trx_id)).status == status

        await self.simulator.until(is_so)

    async def settle(self, rail: str, trx_id: str, status: str, **how: Any) -> None:
        """Settles the transfer at the provider, which sends a webhook if it supports webhooks."""
        path = f"{rail}/transfers/{kinds.BY_RAIL[rail].reference(trx_id)}/settle"
        await self.simulator.control(path, {"status": status, **how})

    async def timeline(self, trx_id: str) -> list[TimelineEvent]:
        return await steps(self.services.db, self.merchant.new.id, trx_id)

    async def balance(self) -> int:
        minor: int = await self.services.db.value(
            """
            SELECT balance_minor FROM wallet
             WHERE merchant_id = $1 AND environment = $2 AND currency = 'NGN'""",
            self.merchant.new.id,
            self.merchant.environment,
        )
        return minor

    async def account(self, name: str) -> int:
        minor: int = await self.services.db.value(
            """
            SELECT coalesce(sum(amount_minor), 0)::bigint FROM entry
             WHERE merchant_id = $1 AND environment = $2 AND account = $3""",
            self.merchant.new.id,
            self.merchant.environment,
            name,
        )
        return minor

    async def notifications(self, trx_id: str) -> list[dict[str, Any]]:
        records = await self.services.db.records(
            "SELECT body FROM notification WHERE merchant_id = $1 AND trx_id = $2"
            " AND url <> '' ORDER BY id",
            self.merchant.new.id,
            trx_id,
        )
        return [json.loads(record["body"]) for record in records]

    async def cases(self) -> list[tuple[str, str]]:
        records = await self.services.db.records(
            "SELECT kind, reference FROM operator_case WHERE merchant_id = $1 ORDER BY id",
            self.merchant.new.id,
        )
        return [(record["kind"], record["reference"]) for record in records]

    async def last_answer(self, trx_id: str) -> str | None:
        """Returns the provider's last answer to a status query, as shown on the payout's page."""
        answer: str | None = await self.services.db.value(
            "SELECT result FROM job WHERE kind = 'transfer' AND subject = $1", trx_id
        )
        return answer

    async def transfers(self, rail: str = "a") -> list[Any]:
        listed: list[Any] = (await self.simulator.read(f"{rail}/transfers"))["transfers"]
        return listed

    async def calls(self, rail: str = "a") -> list[str]:
        """Returns the calls that the simulated provider has received, oldest first."""
        listed = (await self.simulator.read(f"{rail}/requests"))["requests"]
        return [request["call"] for request in reversed(listed)]


async def see_changes(services: Services) -> None:
    """Reloads changes immediately, instead of up to a second later."""
    async with services.watch._looking:
        await services.watch._look()


@contextlib.asynccontextmanager
async def setting(services: Services, key: str, text: str) -> AsyncIterator[None]:
    before = platform.render(getattr(services.platform.now, key))
    try:
        await platform.change(services.db, key, text)
        await see_changes(services)
        yield
    finally:
        await platform.change(services.db, key, before)
        await see_changes(services)


@contextlib.asynccontextmanager
async def method(services: Services, rail: str, **wanted: Any) -> AsyncIterator[None]:
    code = CODES.get(rail, rail)
    before = services.methods.by_code(MethodKind.WITHDRAW, code)
    assert before is not None
    try:
        await _change_method(services, code, catalogue.MethodUpdate(**wanted))
        yield
    finally:
        await _change_method(services, code, _restored(before))


async def _change_method(services: Services, code: str, wanted: catalogue.MethodUpdate) -> None:
    await catalogue.change(services.db, MethodKind.WITHDRAW, code, wanted)
    await see_changes(services)


def _restored(before: Method) -> catalogue.MethodUpdate:
    def text(minor: int | None) -> str:
        return "none" if minor is None else str(Money(before.currency, minor).amount)

    return catalogue.MethodUpdate(
        name=before.name,
        active=before.active,
        minimum=text(before.min_minor),
        maximum=text(before.max_minor),
        fee_fixed=text(before.fee.fixed_minor),
        fee_percent=before.fee.percent,
        fee_minimum=text(before.fee.minimum_minor),
        fee_maximum=text(before.fee.maximum_minor),
    )


async def set_credentials(services: Services, rail: str, **wanted: str) -> None:
    """Changes a provider's credentials. An empty value removes the field."""
    provider = kinds.BY_RAIL[rail].provider
    await credentials.change(services.db, services.keyring, provider, wanted)
    await see_changes(services)


async def clear_credentials(services: Services, rail: str) -> None:
    await credentials.clear(services.db, kinds.BY_RAIL[rail].provider)
    await see_changes(services)
