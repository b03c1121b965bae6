"""`manilla trigger`: creates a sandbox transaction with the same use cases as the API."""

import secrets
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
import typer

from manilla import wiring
from manilla.api import payments, payouts, v1
from manilla.api.endpoint import Call
from manilla.cli.instance import Data, InstanceRefusal, Tools, run
from manilla.cli.output import Json, print_fields
from manilla.kit import strict_json
from manilla.kit.environment import Environment
from manilla.kit.http import is_web_address
from manilla.kit.jobs import Job
from manilla.ledger import trx_ids
from manilla.ledger.transactions import Scenario
from manilla.merchants import availability, merchants
from manilla.merchants.directory import Caller
from manilla.merchants.requests import limit as request_limit
from manilla.methods.method import Method, MethodKind
from manilla.notify import queries
from manilla.payments import states
from manilla.payouts.beneficiaries import methods as payout_methods
from manilla.payouts.beneficiaries.sandbox import BANKS
from manilla.payouts.initiate import COMPLETE_IN_SANDBOX
from manilla.payouts.tasks import PayoutTasks
from manilla.providers.rails import open_session
from manilla.refunds import initiate
from manilla.refunds.refund import SEND
from manilla.refunds.tasks import RefundTasks
from manilla.services import Services

DEFAULT_IPN_URL = "http://127.0.0.1:9000/ipn"
AMOUNT = Decimal(1000)
PREFERRED_CURRENCY = "NGN"
ACCOUNT_NUMBER = "0000000000"
SHOP = "https://shop.example/"
REASON = "manilla trigger"


class SandboxEvent(StrEnum):
    PAYMENT_COMPLETED = "payment.completed"
    PAYOUT_COMPLETED = "payout.completed"
    PAYOUT_FAILED = "payout.failed"
    REFUND_COMPLETED = "refund.completed"


def trigger(
    event: Annotated[SandboxEvent, typer.Argument(metavar="EVENT", help="payment.completed, …")],
    merchant: Annotated[
        int, typer.Option("--merchant", metavar="ID", min=1, max=trx_ids.MERCHANT_ID_MAX)
    ],
    ipn_url: Annotated[
        str, typer.Option("--ipn-url", metavar="URL", help="The URL to notify.")
    ] = DEFAULT_IPN_URL,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Create a payment, payout or refund in a merchant's sandbox, and notify the merchant.

    Events: payment.completed, payout.completed, payout.failed, refund.completed. For a refund, a
    payment is created first, and the merchant is notified of both.
    """
    if not is_web_address(ipn_url) or not strict_json.is_storable(ipn_url):
        raise InstanceRefusal(f"{ipn_url!r} is not an http:// or https:// URL.")

    async def command(tools: Tools) -> dict[str, Any]:
        await merchants.get(tools.db, merchant)
        # The session for provider calls, which the sandbox never makes.
        async with open_session() as session:
            services = wiring.build(tools.settings, tools.db, session)
            await services.watch.ensure_fresh()
            caller = await services.directory.of(Environment.SANDBOX, merchant)
            availability.check(caller)
            created = await _Sandbox(services, caller, ipn_url).create(event)
        sent = await queries.notifications(
            tools.db, merchant_id=merchant, trx_id=created["trx_id"], limit=1
        )
        return {
            "event": event,
            "merchant_id": merchant,
            "environment": Environment.SANDBOX,
            **created,
            "ipn_url": ipn_url,
            "notification_id": sent[0].id,
        }

    print_fields(run(data, command), as_json=as_json)


class _Sandbox(msgspec.Struct, frozen=True):
    """Does immediately, for a sandbox merchant, what the API and the worker do."""

    services: Services
    caller: Caller
    ipn_url: str

    async def create(self, event: SandboxEvent) -> dict[str, Any]:
        match event:
            case SandboxEvent.PAYMENT_COMPLETED:
                return await self._pay()
            case SandboxEvent.PAYOUT_COMPLETED:
                return await self._pay_out(Scenario.SUCCESS)
            case SandboxEvent.PAYOUT_FAILED:
                return await self._pay_out(Scenario.FAILED)
            case SandboxEvent.REFUND_COMPLETED:
                return await self._refund()

    async def _pay(self) -> dict[str, Any]:
        body = payments.PaymentRequest(
            payment_amount=AMOUNT,
            currency_code=self._currencies()[0],
            ref_trx=_new_reference(),
            ipn_url=self.ipn_url,
            success_redirect=SHOP,
            cancel_redirect=SHOP,
            description=REASON,
        )
        session = await self._call(payments.INITIATE, body)
        trx_id = urlsplit(session.payment_url).path.rpartition("/")[2]
        # The worker also completes the payment shortly. Whichever is second finds it completed and
        # changes nothing.
        await states.settle_in_sandbox(
            self.services.db, self.caller.merchant_id, trx_id, states.PaymentEvent.PAID
        )
        return {"trx_id": trx_id, "ref_trx": body.ref_trx}

    async def _refund(self) -> dict[str, Any]:
        paid, db = await self._pay(), self.services.db
        started = await initiate.start(db, paid["trx_id"], None, REASON)
        await RefundTasks(db, self.services.rails).advance(self._job(SEND, started.trx_id))
        return {**paid, "refund_trx_id": started.trx_id}

    async def _pay_out(self, scenario: Scenario) -> dict[str, Any]:
        services, method = self.services, self._payout_method()
        body = payouts.PayoutRequest(
            payout_amount=max(AMOUNT, method.minimum.amount),
            currency_code=method.currency,
            ref_trx=_new_reference(),
            ipn_url=self.ipn_url,
            withdraw_method_id=method.id,
            beneficiary=_beneficiary(method),
            description=REASON,
        )
        initiated = await self._call(payouts.INITIATE, body, scenario)
        tasks = PayoutTasks(
            services.db,
            services.platform,
            services.rails,
            services.failover,
            services.deliveries,
            services.base_url,
        )
        await tasks.complete_in_sandbox(self._job(COMPLETE_IN_SANDBOX, initiated.trx_id))
        return {"trx_id": initiated.trx_id, "ref_trx": body.ref_trx}

    async def _call(self, path: str, body: Any, scenario: Scenario | None = None) -> Any:
        [endpoint] = [each for each in v1.endpoints(self.services) if each.path == path]
        limit = self.services.platform.now.rate_limit_per_minute
        call = Call(
            caller=self.caller,
            parameter="",
            query=None,
            body=body,
            raw_body=b"",
            headers={} if scenario is None else {b"x-sandbox-scenario": scenario.encode()},
            ticket=request_limit.ticket(self.caller.merchant_id, "command", limit),
        )
        return await endpoint.use_case(call)

    def _currencies(self) -> list[str]:
        usable = self.caller.currencies & self.caller.active_wallets
        if not usable:
            raise InstanceRefusal("The merchant has no active wallet in the sandbox.")
        return sorted(usable, key=lambda currency: (currency != PREFERRED_CURRENCY, currency))

    def _payout_method(self) -> Method:
        """Returns an automatic withdrawal method if one is offered, otherwise the manual one."""
        methods, sandbox = self.services.methods, Environment.SANDBOX
        offered = [
            method
            for currency in self._currencies()
            for method in methods.offered(MethodKind.WITHDRAW, currency, sandbox)
        ]
        if not offered:
            raise InstanceRefusal("No payout method is available to the merchant in the sandbox.")
        return min(offered, key=lambda method: method.is_manual)

    def _job(self, kind: str, subject: str) -> Job:
        return Job(self.caller.merchant_id, kind, subject, attempts=1, failures=0, fence=0)


def _beneficiary(method: Method) -> dict[str, Any]:
    if method.provider is None:
        return {
            payout_methods.MANUAL_BANK_NAME: "Access Bank",
            payout_methods.MANUAL_ACCOUNT_NUMBER: ACCOUNT_NUMBER,
        }
    return {
        payout_methods.BANK_CODE: BANKS[method.provider][0].code,
        payout_methods.ACCOUNT_NUMBER: ACCOUNT_NUMBER,
    }


def _new_reference() -> str:
    return f"TRIGGER-{secrets.token_hex(8)}"
