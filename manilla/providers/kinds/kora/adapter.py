"""The calls to Kora's API."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from manilla.kit.money import Money
from manilla.providers import reading, wire
from manilla.providers.kind import AdapterContext
from manilla.providers.kinds.kora import answers, statement, webhooks
from manilla.providers.port import (
    OUR_REFERENCE,
    Answer,
    Bank,
    Channel,
    ChargeOrder,
    ChargeState,
    Done,
    Headers,
    HostedCheckout,
    KnownAs,
    RefundOrder,
    RefundState,
    ReportedChargeStatus,
    ReportedRefundStatus,
    ResolvedAccount,
    Sent,
    StatementPage,
    TransferOrder,
    TransferState,
    TransferStatus,
    Unknown,
    VirtualAccount,
    Webhook,
)
from manilla.providers.wire import Reply

Value = TypeVar("Value")

API = "/merchant/api/v1"
# Kora's page has no USSD.
CHANNELS = {Channel.CARD: "card", Channel.BANK_TRANSFER: "bank_transfer"}
NARRATION_LENGTH_MAX = 100  # ours; Kora documents no limit
REASON_LENGTH_MAX = 200


class Kora:
    def __init__(self, context: AdapterContext) -> None:
        current = context.credentials
        secret_key, public_key = current.value("secret_key"), current.value("public_key")
        self.provider = current.provider
        self._wire = context.wire(_authorization(secret_key), answers.read_envelope)
        self._public = context.wire(_authorization(public_key), answers.read_envelope)
        self._has_public_key = bool(public_key)
        self._statements = context.wire(_authorization(secret_key), statement.read_envelope)
        self._pay_in = context.pay_in
        self._pay_out = context.pay_out
        self._secret_key = secret_key.encode()

    async def create_checkout(self, order: ChargeOrder) -> Answer[HostedCheckout]:
        def read(reply: Reply) -> Answer[HostedCheckout]:
            return answers.charge(reply, lambda data: answers.checkout(data, order))

        body = {**_charge(order), "redirect_url": order.redirect_url}
        if order.channel is not None:
            body["channels"] = [CHANNELS[order.channel]]
        return await self._wire.call(
            self._pay_in, "POST", f"{API}/charges/initialize", read, body=body
        )

    async def create_virtual_account(
        self, order: ChargeOrder, bvn: str | None
    ) -> Answer[VirtualAccount]:
        del bvn  # only permanent accounts need it

        def read(reply: Reply) -> Answer[VirtualAccount]:
            return answers.charge(reply, lambda data: answers.virtual_account(data, order))

        return await self._wire.call(
            self._pay_in, "POST", f"{API}/charges/bank-transfer", read, body=_charge(order)
        )

    async def charge_state(self, reference: str) -> Answer[ChargeState]:
        def read(reply: Reply) -> Answer[ChargeState]:
            if answers.is_not_found(reply, "charge", "transaction"):
                return Done(ChargeState(ReportedChargeStatus.NOT_FOUND))
            return wire.done(reply, lambda data: answers.charge_state(data, reference))

        return await self._wire.call(self._pay_in, "GET", f"{API}/charges/{reference}", read)

    async def refund(self, order: RefundOrder) -> Answer[RefundState]:
        def read(reply: Reply) -> Answer[RefundState]:
            return answers.refund(reply, lambda data: answers.new_refund(data, order))

        body = {
            "reference": order.reference,
            "payment_reference": order.charge_reference,
            "amount": order.amount.amount,
            **_given({"reason": order.reason[:REASON_LENGTH_MAX]}),
        }
        return await self._wire.call(
            self._pay_in, "POST", f"{API}/refunds/initiate", read, body=body
        )

    async def refund_state(
        self, reference: str, known: KnownAs = OUR_REFERENCE
    ) -> Answer[RefundState]:
        del known  # our reference identifies it

        def read(reply: Reply) -> Answer[RefundState]:
            if answers.is_not_found(reply, "refund", "transaction"):
                return Done(RefundState(ReportedRefundStatus.NOT_FOUND))
            return wire.done(reply, lambda data: answers.refund_state(data, reference))

        return await self._wire.call(self._pay_in, "GET", f"{API}/refunds/{reference}", read)

    async def banks(self) -> Answer[list[Bank]]:
        def read(reply: Reply) -> Answer[list[Bank]]:
            return wire.done(reply, reading.banks)

        return await self._look_up("GET", f"{API}/misc/banks", read, query={"countryCode": "NG"})

    async def resolve(self, bank_code: str, account_number: str) -> Answer[ResolvedAccount]:
        def read(reply: Reply) -> Answer[ResolvedAccount]:
            return answers.lookup(reply, lambda data: answers.resolved(data, account_number))

        body = {"bank": bank_code, "account": account_number, "currency": answers.NAIRA}
        return await self._look_up("POST", f"{API}/misc/banks/resolve", read, body=body)

    async def _look_up(
        self,
        method: str,
        path: str,
        read: Callable[[Reply], Answer[Value]],
        **request: Mapping[str, str],
    ) -> Answer[Value]:
        """Calls with the secret key. If Kora rejects it, calls with the public key.

        Kora documents the public key for these two calls, which create nothing; most programs use
        the secret key.
        """
        answer = await self._wire.call(self._pay_out, method, path, read, **request)
        is_rejected = isinstance(answer, Unknown) and not answer.can_pass
        if is_rejected and self._has_public_key:
            return await self._public.call(self._pay_out, method, path, read, **request)
        return answer

    async def balance(self, currency: str) -> Answer[Money]:
        def read(data: Any) -> Money:
            return reading.money(reading.field(data, currency), "available_balance", currency)

        return await self._wire.call(
            self._pay_out, "GET", f"{API}/balances", lambda reply: wire.done(reply, read)
        )

    async def statement(
        self, since: datetime, until: datetime, currency: str, start: str | None = None
    ) -> Answer[StatementPage]:
        return await statement.page(self._statements, self._pay_out, since, until, currency, start)

    def transfer_reference(self, trx_id: str) -> str:
        return trx_id

    async def send(self, order: TransferOrder) -> Answer[Sent]:
        def read(reply: Reply) -> Answer[Sent]:
            return answers.transfer(reply, lambda data: answers.sent(data, order))

        body = {
            "reference": order.reference,
            "destination": {
                "type": "bank_account",
                "amount": order.amount.amount,
                "currency": order.amount.currency,
                **_given({"narration": order.narration[:NARRATION_LENGTH_MAX]}),
                "bank_account": {"bank": order.bank_code, "account": order.account_number},
                "customer": _customer(order.customer_email, order.account_name),
            },
            **_given({"notification_url": order.notification_url}),
        }
        return await self._wire.call(
            self._pay_out, "POST", f"{API}/transactions/disburse", read, body=body
        )

    async def transfer_state(self, reference: str) -> Answer[TransferState]:
        def read(reply: Reply) -> Answer[TransferState]:
            if answers.is_not_found(reply, "transaction"):
                return Done(TransferState(TransferStatus.NOT_FOUND))
            return wire.done(reply, lambda data: answers.transfer_state(data, reference))

        return await self._wire.call(self._pay_out, "GET", f"{API}/transactions/{reference}", read)

    def read_webhook(self, headers: Headers, raw: bytes) -> Webhook:
        return webhooks.read(self.provider, self._secret_key, headers, raw)


def _authorization(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def _given(fields: Mapping[str, str]) -> dict[str, str]:
    """Leaves out empty optional fields, which Kora may reject."""
    return {name: text for name, text in fields.items() if text}


def _customer(email: str, name: str) -> dict[str, str]:
    return {"email": email, **_given({"name": name})}


def _charge(order: ChargeOrder) -> dict[str, Any]:
    optional = {
        "narration": order.description[:NARRATION_LENGTH_MAX],
        "notification_url": order.notification_url,
    }
    return {
        "reference": order.reference,
        "amount": order.amount.amount,
        "currency": order.amount.currency,
        "customer": _customer(order.customer_email, order.customer_name),
        # Otherwise Kora adds its fee to the amount, and the customer pays more than the charge.
        "merchant_bears_cost": True,
        **_given(optional),
    }
