"""`manilla trigger`: creates a sandbox transaction with the API's own use cases."""

import contextlib
import secrets
from collections.abc import AsyncIterator
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
import typer

from manilla.cli.instance import Data, InstanceRefusal, Tools, run
from manilla.cli.output import Json, print_fields
from manilla.kit import strict_json
from manilla.kit.db import Database
from manilla.kit.environment import Environment
from manilla.kit.http import is_web_address
from manilla.kit.jobs import Job
from manilla.kit.ratelimit import RateTicket
from manilla.ledger import trx_ids
from manilla.ledger.transactions import Scenario
from manilla.merchants import availability, merchants, request_limit
from manilla.merchants.directory import Caller, Directory
from manilla.methods.catalogue import Catalogue
from manilla.methods.method import Method, MethodKind
from manilla.notify import queries
from manilla.payments import initiate as pay_in
from manilla.payments import states
from manilla.payments.link import CheckoutLinks
from manilla.payouts import initiate as pay_out
from manilla.payouts import methods as payout_methods
from manilla.payouts.banks import Banks
from manilla.payouts.beneficiary import AccountResolver
from manilla.payouts.sandbox import BANKS
from manilla.payouts.tasks import PayoutTasks
from manilla.platform.changes import ChangeWatch
from manilla.platform.settings import CurrentSettings
from manilla.providers.rails import Rails, open_session
from manilla.refunds import initiate
from manilla.refunds.refund import SEND
from manilla.refunds.tasks import RefundTasks

DEFAULT_IPN_URL = "http://127.0.0.1:9000/ipn"
AMOUNT = Decimal(1000)
FAVOURITE = "NGN"
ACCOUNT_NUMBER = "0000000000"
HOME = "https://shop.example/"
REASON = "manilla trigger"


class Happening(StrEnum):
    PAYMENT_COMPLETED = "payment.completed"
    PAYOUT_COMPLETED = "payout.completed"
    PAYOUT_FAILED = "payout.failed"
    REFUND_COMPLETED = "refund.completed"


def trigger(
    event: Annotated[Happening, typer.Argument(metavar="EVENT", help="payment.completed, …")],
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
        async with _opened(tools, merchant) as sandbox:
            happened = await _make(sandbox, event, ipn_url)
        told = await queries.notifications(
            tools.db, merchant_id=merchant, trx_id=happened["trx_id"], limit=1
        )
        return {
            "event": event,
            "merchant_id": merchant,
            "environment": Environment.SANDBOX,
            **happened,
            "ipn_url": ipn_url,
            "notification_id": told[0].id,
        }

    print_fields(run(data, command), as_json=as_json)


async def _make(sandbox: "_Sandbox", event: Happening, ipn_url: str) -> dict[str, Any]:
    match event:
        case Happening.PAYMENT_COMPLETED:
            return await sandbox.pay(ipn_url)
        case Happening.PAYOUT_COMPLETED:
            return await sandbox.pay_out(ipn_url, Scenario.SUCCESS)
        case Happening.PAYOUT_FAILED:
            return await sandbox.pay_out(ipn_url, Scenario.FAILED)
        case Happening.REFUND_COMPLETED:
            return await sandbox.refund(ipn_url)


class _Sandbox(msgspec.Struct, frozen=True):
    """Runs what the API and the worker do for a sandbox merchant, immediately."""

    db: Database
    caller: Caller
    ticket: RateTicket
    catalogue: Catalogue
    payments: pay_in.PaymentInitiation
    payouts: pay_out.PayoutInitiation
    payout_tasks: PayoutTasks
    refund_tasks: RefundTasks

    async def pay(self, ipn_url: str) -> dict[str, Any]:
        order = pay_in.PaymentOrder(
            amount=AMOUNT,
            currency_code=self._currencies()[0],
            ref_trx=_new_reference(),
            ipn_url=ipn_url,
            success_redirect=HOME,
            cancel_redirect=HOME,
            description=REASON,
            customer_name=None,
            customer_email=None,
            allow_payment_methods=[],
            is_legacy=False,
            scenario=None,
            repeat_key=None,
        )
        session = await self.payments.initiate(self.caller, order, self.ticket)
        assert isinstance(session, pay_in.PaymentSession)  # without a key, no replay
        trx_id = urlsplit(session.payment_url).path.rpartition("/")[2]
        # The worker does the same in a moment; whichever comes second finds the payment completed.
        await states.settle_in_sandbox(
            self.db, self.caller.merchant_id, trx_id, states.PaymentEvent.PAID
        )
        return {"trx_id": trx_id, "ref_trx": order.ref_trx}

    async def refund(self, ipn_url: str) -> dict[str, Any]:
        paid = await self.pay(ipn_url)
        started = await initiate.start(self.db, paid["trx_id"], None, REASON)
        await self.refund_tasks.advance(self._job(SEND, started.trx_id))
        return {**paid, "refund_trx_id": started.trx_id}

    async def pay_out(self, ipn_url: str, scenario: Scenario) -> dict[str, Any]:
        method = self._payout_method()
        order = pay_out.PayoutOrder(
            amount=max(AMOUNT, method.minimum.amount),
            currency_code=method.currency,
            ref_trx=_new_reference(),
            ipn_url=ipn_url,
            withdraw_method_id=method.id,
            withdraw_account_id=None,
            beneficiary=_beneficiary(method),
            description=REASON,
            scenario=scenario,
            repeat_key=None,
        )
        initiated = await self.payouts.initiate(self.caller, order, self.ticket)
        assert isinstance(initiated, pay_out.InitiatedPayout)
        await self.payout_tasks.complete_in_sandbox(
            self._job(pay_out.COMPLETE_IN_SANDBOX, initiated.trx_id)
        )
        return {"trx_id": initiated.trx_id, "ref_trx": order.ref_trx}

    def _currencies(self) -> list[str]:
        usable = self.caller.currencies & self.caller.active_wallets
        if not usable:
            raise InstanceRefusal("The merchant has no active wallet in the sandbox.")
        return sorted(usable, key=lambda currency: (currency != FAVOURITE, currency))

    def _payout_method(self) -> Method:
        """Returns an automatic method if one is offered, otherwise the manual one."""
        offered = [
            method
            for currency in self._currencies()
            for method in self.catalogue.offered(MethodKind.WITHDRAW, currency, Environment.SANDBOX)
        ]
        if not offered:
            raise InstanceRefusal("No payout method is available to the merchant in the sandbox.")
        return min(offered, key=lambda method: method.is_manual)

    def _job(self, kind: str, subject: str) -> Job:
        return Job(self.caller.merchant_id, kind, subject, attempts=1, failures=0, fence=0)


@contextlib.asynccontextmanager
async def _opened(tools: Tools, merchant_id: int) -> AsyncIterator[_Sandbox]:
    db, keyring, watch = tools.db, tools.keyring, ChangeWatch(tools.db)
    async with open_session() as session:  # a session for provider calls; the sandbox makes none
        is_development = not tools.is_production_mode
        platform = CurrentSettings(db, watch, is_development=is_development)
        directory = Directory(db, keyring, watch)
        rails = Rails(db, keyring, watch, session, is_production_mode=False)
        catalogue = Catalogue(db, watch, rails)
        await watch.ensure_fresh()
        caller = await directory.of(Environment.SANDBOX, merchant_id)
        availability.check(caller)
        # Nobody follows the link, and no provider receives a URL of ours.
        links, base_url = CheckoutLinks(keyring, ""), ""
        resolver = AccountResolver(rails, Banks(rails, catalogue))
        yield _Sandbox(
            db=db,
            caller=caller,
            ticket=request_limit.ticket(merchant_id, "command", platform.now.rate_limit_per_minute),
            catalogue=catalogue,
            payments=pay_in.PaymentInitiation(db, platform, catalogue, rails, links),
            payouts=pay_out.PayoutInitiation(db, platform, catalogue, rails, resolver),
            payout_tasks=PayoutTasks(db, platform, rails, base_url),
            refund_tasks=RefundTasks(db, rails),
        )


def _beneficiary(method: Method) -> dict[str, Any]:
    if method.provider is None:
        return {
            payout_methods.BANK_NAME_BY_HAND: "Access Bank",
            payout_methods.ACCOUNT_NUMBER_BY_HAND: ACCOUNT_NUMBER,
        }
    return {
        payout_methods.BANK_CODE: BANKS[method.provider][0].code,
        payout_methods.ACCOUNT_NUMBER: ACCOUNT_NUMBER,
    }


def _new_reference() -> str:
    return f"TRIGGER-{secrets.token_hex(8)}"
