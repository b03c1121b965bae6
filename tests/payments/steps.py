"""Functions that the payment tests share."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from decimal import Decimal
from typing import Any

import msgspec

from manilla.app import WebApplication
from manilla.kit.environment import Environment
from manilla.kit.jobs import Job
from manilla.kit.money import Money
from manilla.merchants import merchants, queries, wallets
from manilla.merchants.merchants import CommissionBearer, MerchantUpdate
from manilla.methods import catalogue
from manilla.methods.method import MethodKind
from manilla.payments.initiate import COMPLETE_IN_SANDBOX, EXPIRE
from manilla.payments.tasks import PaymentTasks
from manilla.platform import settings as platform
from manilla.providers import credentials
from manilla.providers.kinds import KINDS
from manilla.services import Services
from tests.conftest import serving
from tests.payments.orders import INITIATE, LEGACY, VERIFY, order
from tests.support.client import Merchant, Reply, Site
from tests.support.timeouts import TIMEOUT_SECONDS

Given = Mapping[str, Mapping[str, str]]

ALL_PROVIDERS: Given = {
    "providera": {"secret_key": "a-secret", "webhook_secret": "a-hook"},
    "providerb": {"api_key": "b-key", "secret_key": "b-secret", "business_id": "b-business"},
    "providerc": {"secret_key": "c-secret", "webhook_secret": "c-hook"},
}


async def initiate(merchant: Merchant, body: Any, **headers: str | None) -> Reply:
    """Creates a payment. Keyword arguments such as `Idempotency_Key="x"` set headers."""
    return await merchant.call("POST", INITIATE, encoded(body), **headers)


async def initiate_legacy(merchant: Merchant, body: Any, **headers: str | None) -> Reply:
    """Creates a payment with only the fields that the legacy API requires.

    A header set to None is omitted.
    """
    given = {
        "Authorization": f"Bearer {merchant.credentials.api_key}",
        "X_Environment": str(merchant.environment),
        **headers,
    }
    sent = {name.replace("_", "-"): value for name, value in given.items() if value is not None}
    return await merchant.site.send("POST", LEGACY, sent, encoded(body))


async def new_payment(merchant: Merchant, scenario: str | None = None, **changed: Any) -> str:
    reply = await initiate(merchant, order(**changed), X_Sandbox_Scenario=scenario)
    assert reply.status == 200, reply.body
    return trx_id_of(reply)


async def verify(merchant: Merchant, trx_id: str) -> Reply:
    return await merchant.get(VERIFY + trx_id)


def encoded(body: Any) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def order_of(amount: str, **changed: Any) -> bytes:
    """Returns a request body with exactly the given digits as the amount."""
    text = json.dumps(order(payment_amount="@", **changed))
    return text.replace('"@"', amount).encode()


def exact(reply: Reply) -> Any:
    """Returns the response's JSON with exact decimals instead of floats."""
    return json.loads(reply.body, parse_float=Decimal)


def trx_id_of(reply: Reply) -> str:
    url: str = reply.json["payment_url"]
    return url.partition("/checkout/")[2].partition("?")[0]


@contextlib.asynccontextmanager
async def second_program(services: Services, merchant: Merchant) -> AsyncIterator[Merchant]:
    """The same merchant and IP address, calling a second web process on the same database."""
    async with serving(WebApplication(services)) as port:
        yield msgspec.structs.replace(merchant, site=Site(port, merchant.site.address))


def in_environment(merchant: Merchant, environment: Environment) -> Merchant:
    return msgspec.structs.replace(merchant, environment=environment)


async def change(services: Services, merchant: Merchant, **wanted: Any) -> None:
    """Changes the merchant.

    Before the merchant's first call, the API applies the change immediately. After the first call,
    the API applies the change within a second.
    """
    await merchants.change(services.db, services.keyring, merchant.new.id, MerchantUpdate(**wanted))


async def set_commission(
    services: Services, merchant: Merchant, percent: str, bearer: CommissionBearer
) -> None:
    await change(services, merchant, commission_percent=Decimal(percent), commission_bearer=bearer)


async def fund(services: Services, merchant: Merchant, amount: str) -> None:
    money = Money.of(amount, "NGN")
    await wallets.fund(services.db, merchant.new.id, merchant.environment, money, "A test")


async def balance(services: Services, merchant: Merchant) -> Decimal:
    wallet = await queries.wallet(services.db, merchant.new.id, merchant.environment, "NGN")
    assert wallet is not None
    return Money("NGN", wallet.balance_minor).amount


async def complete(services: Services, merchant: Merchant, trx_id: str) -> None:
    """Completes a sandbox payment, as the worker does after a few seconds."""
    job = Job(merchant.new.id, COMPLETE_IN_SANDBOX, trx_id, attempts=1, failures=0, fence=1)
    await PaymentTasks(services.db, services.charges).complete_in_sandbox(job)


async def expire(services: Services, merchant: Merchant, trx_id: str) -> None:
    """Expires a payment, as the worker does when the checkout's time limit has passed."""
    job = Job(merchant.new.id, EXPIRE, trx_id, attempts=1, failures=0, fence=1)
    await PaymentTasks(services.db, services.charges).expire(job)


async def until(is_so: Callable[[], bool]) -> None:
    """Waits until a change takes effect, which can take up to a second."""
    ends = time.monotonic() + TIMEOUT_SECONDS
    while not is_so():
        assert time.monotonic() < ends
        await asyncio.sleep(0.01)


async def configure(services: Services, given: Given) -> None:
    """Replaces all provider credentials with the given credentials."""
    for provider in KINDS:
        await credentials.clear(services.db, provider)
        if provider in given:
            await credentials.change(services.db, services.keyring, provider, given[provider])
    rails = services.rails
    await until(lambda: all(rails.credentials(p).given == given.get(p, {}) for p in KINDS))


async def change_method(services: Services, code: str, **wanted: Any) -> None:
    after = await catalogue.change(
        services.db, MethodKind.DEPOSIT, code, catalogue.MethodUpdate(**wanted)
    )
    await until(lambda: services.methods.by_id(MethodKind.DEPOSIT, after.id) == after)


@contextlib.asynccontextmanager
async def setting(services: Services, key: str, value: int | str) -> AsyncIterator[None]:
    before = getattr(services.platform.now, key)
    try:
        await _set(services, key, value)
        yield
    finally:
        await _set(services, key, before)


async def _set(services: Services, key: str, value: int | str) -> None:
    await platform.change(services.db, key, str(value))
    await until(lambda: getattr(services.platform.now, key) == value)
