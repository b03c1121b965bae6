"""Calls Kora's API."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from manilla.kit.money import Money
from manilla.providers import port, reading
from manilla.providers.kind import AdapterContext, BaseAdapter
from manilla.providers.kinds.kora import answers, statement, webhooks
from manilla.providers.kinds.kora.accounts import SANDBOX_BANK, KoraAccounts
from manilla.providers.kinds.kora.disputes import KoraChargebacks
from manilla.providers.port import Answer, Unknown
from manilla.providers.wire import Wire

Value = TypeVar("Value")

API = "/merchant/api/v1"
# Kora's hosted page does not offer USSD.
CHANNELS = {port.Channel.CARD: "card", port.Channel.BANK_TRANSFER: "bank_transfer"}
NARRATION_LENGTH_MAX = 100  # our own limit, because Kora documents none
REASON_LENGTH_MAX = 50


class Kora(BaseAdapter):
    def __init__(self, context: AdapterContext) -> None:
        current = context.credentials
        secret_key, public_key = current.value("secret_key"), current.value("public_key")
        super().__init__(context, _authorization(secret_key), answers.read_envelope)
        _, self._public = context.wires(_authorization(public_key), answers.read_envelope)
        self._has_public_key = bool(public_key)
        _, self._statements = context.wires(_authorization(secret_key), statement.read_envelope)
        self._secret_key = secret_key.encode()
        self.disputes = KoraChargebacks(self._pay_in)
        bank_code = SANDBOX_BANK if current.is_sandbox else current.value("account_bank_code")
        self.accounts = KoraAccounts(self._pay_in, bank_code)

    async def create_checkout(self, order: port.ChargeOrder) -> Answer[port.HostedCheckout]:
        body = {**_charge(order), "redirect_url": order.redirect_url}
        if order.channel is not None:
            body["channels"] = [CHANNELS[order.channel]]
        return await self._pay_in.post(
            f"{API}/charges/initialize",
            body,
            lambda data: answers.checkout(data, order),
            answers.decide_payment,
        )

    async def create_virtual_account(
        self, order: port.ChargeOrder, bvn: str | None
    ) -> Answer[port.VirtualAccount]:
        del bvn  # only permanent accounts need a BVN
        return await self._pay_in.post(
            f"{API}/charges/bank-transfer",
            _charge(order),
            lambda data: answers.virtual_account(data, order),
            answers.decide_payment,
        )

    async def charge_state(self, reference: str) -> Answer[port.ChargeState]:
        return await self._pay_in.get(
            f"{API}/charges/{reference}",
            lambda data: answers.charge_state(data, reference),
            answers.find_charge,
        )

    async def refund(self, order: port.RefundOrder) -> Answer[port.RefundState]:
        body = {
            "reference": order.reference,
            "payment_reference": order.charge_reference,
            "amount": order.amount.amount,
            **_given({"reason": order.reason[:REASON_LENGTH_MAX]}),
        }
        return await self._pay_in.post(
            f"{API}/refunds/initiate",
            body,
            lambda data: answers.new_refund(data, order),
            answers.decide_refund,
        )

    async def refund_state(
        self, reference: str, known: port.KnownAs = port.OUR_REFERENCE
    ) -> Answer[port.RefundState]:
        del known  # our reference identifies the refund
        return await self._pay_in.get(
            f"{API}/refunds/{reference}",
            lambda data: answers.refund_state(data, reference),
            answers.find_refund,
        )

    async def banks(self) -> Answer[list[port.Bank]]:
        path, query = f"{API}/misc/banks", {"countryCode": "NG"}
        return await self._look_up(lambda wire: wire.get(path, reading.banks, query=query))

    async def resolve(self, bank_code: str, account_number: str) -> Answer[port.ResolvedAccount]:
        def resolve(wire: Wire) -> Awaitable[Answer[port.ResolvedAccount]]:
            return wire.post(
                f"{API}/misc/banks/resolve",
                {"bank": bank_code, "account": account_number, "currency": answers.NAIRA},
                lambda data: answers.read_account(data, account_number),
                answers.decide_lookup,
            )

        return await self._look_up(resolve)

    async def _look_up(self, call: Callable[[Wire], Awaitable[Answer[Value]]]) -> Answer[Value]:
        """Calls Kora with the secret key, and with the public key if Kora rejects the secret key.

        Kora documents the public key for the two lookup calls, which create nothing. Most
        integrations use the secret key.
        """
        answer = await call(self._pay_out)
        is_rejected = isinstance(answer, Unknown) and not answer.can_pass
        return await call(self._public) if is_rejected and self._has_public_key else answer

    async def balance(self, currency: str) -> Answer[Money]:
        def read(data: Any) -> Money:
            return reading.money(reading.field(data, currency), "available_balance", currency)

        return await self._pay_out.get(f"{API}/balances", read)

    async def statement(
        self, since: datetime, until: datetime, currency: str, start: str | None = None
    ) -> Answer[port.StatementPage]:
        return await statement.page(self._statements, since, until, currency, start)

    async def send(self, order: port.TransferOrder) -> Answer[port.Sent]:
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
        return await self._pay_out.post(
            f"{API}/transactions/disburse",
            body,
            lambda data: answers.read_transfer(data, order),
            answers.decide_transfer,
        )

    async def transfer_state(self, reference: str) -> Answer[port.TransferState]:
        return await self._pay_out.get(
            f"{API}/transactions/{reference}",
            lambda data: answers.transfer_state(data, reference),
            answers.find_transfer,
        )

    def read_webhook(self, headers: port.Headers, raw: bytes) -> port.Webhook:
        return webhooks.read(self.provider, self._secret_key, headers, raw)


def _authorization(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def _given(fields: Mapping[str, str]) -> dict[str, str]:
    """Removes empty optional fields, because Kora may reject them."""
    return {name: text for name, text in fields.items() if text}


def _customer(email: str, name: str) -> dict[str, str]:
    return {"email": email, **_given({"name": name})}


def _charge(order: port.ChargeOrder) -> dict[str, Any]:
    optional = {
        "narration": order.description[:NARRATION_LENGTH_MAX],
        "notification_url": order.notification_url,
    }
    return {
        "reference": order.reference,
        "amount": order.amount.amount,
        "currency": order.amount.currency,
        "customer": _customer(order.customer_email, order.customer_name),
        # Without this setting, Kora adds its fee to the amount that the customer pays.
        "merchant_bears_cost": True,
        **_given(optional),
    }
