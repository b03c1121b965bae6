"""The adapter for Provider C, a gateway for payment links."""

from typing import Any

from manilla.kit.money import Money
from manilla.providers import port, reading, replies
from manilla.providers.kind import (
    SWITCHES,
    AdapterContext,
    BaseAdapter,
    Capabilities,
    CredentialField,
    ProviderKind,
    base_url,
)
from manilla.providers.port import Answer, Done, Refused, Unknown
from manilla.providers.reading import Malformed
from manilla.providers.replies import Reply, read_word

CHARGE_STATUSES = {
    "pending": port.ReportedChargeStatus.PENDING,
    "successful": port.ReportedChargeStatus.PAID,
    "failed": port.ReportedChargeStatus.FAILED,
}
TRANSFER_STATUSES = {
    "NEW": port.TransferStatus.PENDING,
    "PENDING": port.TransferStatus.PENDING,
    "SUCCESSFUL": port.TransferStatus.DELIVERED,
    "FAILED": port.TransferStatus.FAILED,
    "REVERSED": port.TransferStatus.REVERSED,
}
REFUND_STATUSES = {
    "completed": port.ReportedRefundStatus.PAID,
    "pending": port.ReportedRefundStatus.PENDING,
}


class ProviderC(BaseAdapter):
    def __init__(self, context: AdapterContext) -> None:
        current = context.credentials
        headers = {"Authorization": f"Bearer {current.value('secret_key')}"}
        super().__init__(context, headers, read_word)
        self._webhook_secret = current.value("webhook_secret").encode()

    async def create_checkout(self, order: port.ChargeOrder) -> Answer[port.HostedCheckout]:
        body = {
            "tx_ref": order.reference,
            "amount": order.amount.amount,
            "currency": order.amount.currency,
            "redirect_url": order.redirect_url,
            "customer": {"email": order.customer_email, "name": order.customer_name},
            "customizations": {"title": order.merchant_name, "description": order.description},
        }
        return await self._pay_in.post("/v3/payments", body, _checkout, replies.decide_payment)

    async def create_virtual_account(
        self, order: port.ChargeOrder, bvn: str | None
    ) -> Answer[port.VirtualAccount]:
        del order, bvn
        return Refused(port.RefusalCode.NOT_SUPPORTED, "Provider C has no virtual accounts.")

    async def charge_state(self, reference: str) -> Answer[port.ChargeState]:
        return await self._pay_in.get(
            "/v3/transactions/verify_by_reference",
            lambda data: _charge_state(data, reference),
            replies.found_or(replies.NO_CHARGE, _says_not_found),
            query={"tx_ref": reference},
        )

    async def refund(self, order: port.RefundOrder) -> Answer[port.RefundState]:
        charge = await self.charge_state(order.charge_reference)
        if not isinstance(charge, Done):
            return charge
        if charge.value.provider_reference is None:
            return Unknown("the provider does not know the charge")
        return await self._pay_in.post(
            f"/v3/transactions/{charge.value.provider_reference}/refund",
            {"amount": order.amount.amount, "reference": order.reference},
            lambda data: _refund_state(data, order.amount.currency),
            replies.decide_payment,
        )

    async def refund_state(
        self, reference: str, known: port.KnownAs = port.OUR_REFERENCE
    ) -> Answer[port.RefundState]:
        del reference
        return Unknown("provider C has no status query for refunds")

    async def banks(self) -> Answer[list[port.Bank]]:
        return await self._pay_out.get("/v3/banks/NG", reading.banks)

    async def resolve(self, bank_code: str, account_number: str) -> Answer[port.ResolvedAccount]:
        body = {"account_number": account_number, "account_bank": bank_code}
        return await self._pay_out.post(
            "/v3/accounts/resolve", body, reading.read_account, replies.decide_transfer
        )

    async def balance(self, currency: str) -> Answer[Money]:
        def read(data: Any) -> Money:
            reading.same_reference(data, "currency", currency)
            return reading.money(data, "available_balance", currency)

        return await self._pay_out.get(f"/v3/balances/{currency}", read)

    async def send(self, order: port.TransferOrder) -> Answer[port.Sent]:
        body = {
            "reference": order.reference,
            "account_bank": order.bank_code,
            "account_number": order.account_number,
            "amount": order.amount.amount,
            "currency": order.amount.currency,
            "narration": order.narration,
            "debit_currency": order.amount.currency,
            "callback_url": order.notification_url,
        }
        return await self._pay_out.post(
            "/v3/transfers", body, lambda data: _sent(data, order), replies.decide_transfer
        )

    async def transfer_state(self, reference: str) -> Answer[port.TransferState]:
        query = {"reference": reference}
        return await self._pay_out.get(
            "/v3/transfers", lambda data: _found_transfer(data, reference), query=query
        )

    def read_webhook(self, headers: port.Headers, raw: bytes) -> port.Webhook:
        if not reading.is_hex_hmac(headers, b"x-providerc-signature", self._webhook_secret, raw):
            return port.Forged()
        return reading.webhook(raw, _event)


def _event(document: Any) -> port.WebhookEvent:
    event, data = reading.text(document, "event"), reading.field(document, "data")
    claim, status = reading.read_claim(data), reading.optional_text(data, "status")
    if event == "charge.completed":
        reference = reading.text(data, "tx_ref")
        paid = CHARGE_STATUSES.get(status)
        return port.WebhookEvent(port.WebhookSubject.CHARGE, reference, claim, paid)
    if event == "transfer.completed":
        reference = reading.text(data, "reference")
        said = TRANSFER_STATUSES.get(status)
        if said is port.TransferStatus.PENDING:
            said = None
        return port.WebhookEvent(port.WebhookSubject.TRANSFER, reference, claim, said)
    raise Malformed("the event is not in the contract")


def _says_not_found(reply: Reply) -> bool:
    message = reply.message.lower()
    is_error = reply.status in (400, 404) and not reply.is_success
    return is_error and ("not found" in message or "no transaction" in message)


def _checkout(data: Any) -> port.HostedCheckout:
    return port.HostedCheckout(reading.web_address(data, "link"))


def _charge_state(data: Any, reference: str) -> port.ChargeState:
    reading.same_reference(data, "tx_ref", reference)
    status = reading.one_of(CHARGE_STATUSES, data, "status")
    currency = reading.currency(data, "currency")
    is_paid = status is port.ReportedChargeStatus.PAID
    return port.ChargeState(
        status=status,
        paid=reading.money(data, "amount", currency) if is_paid else None,
        fee=reading.fee(data, "app_fee", currency),
        reason=reading.optional_text(data, "processor_response"),
        provider_reference=reading.text_or_number(data, "id"),
    )


def _refund_state(data: Any, currency: str) -> port.RefundState:
    return port.RefundState(
        reading.one_of(REFUND_STATUSES, data, "status"),
        reading.optional_money(data, "amount_refunded", currency),
    )


def _sent(data: Any, order: port.TransferOrder) -> port.Sent:
    reading.same_reference(data, "reference", order.reference)
    return port.Sent(
        reading.text_or_number(data, "id"),
        reading.fee(data, "fee", order.amount.currency),
    )


def _found_transfer(data: Any, reference: str) -> port.TransferState:
    found = reading.items(data)
    if not found:
        return replies.NO_TRANSFER
    if len(found) > 1:
        raise Malformed("more than one transfer")
    return _transfer_state(found[0], reference)


def _transfer_state(data: Any, reference: str) -> port.TransferState:
    reading.same_reference(data, "reference", reference)
    # According to the contract, transfers have no currency, because the rail supports only naira.
    return port.TransferState(
        status=reading.one_of(TRANSFER_STATUSES, data, "status"),
        amount=reading.money(data, "amount", "NGN"),
        fee=reading.fee(data, "fee", "NGN"),
        message=reading.optional_text(data, "complete_message"),
        provider_reference=reading.text_or_number(data, "id"),
    )


KIND = ProviderKind(
    name="providerc",
    title="Provider C",
    fields=(
        CredentialField("secret_key", is_required=True),
        CredentialField("api_key", label="API key"),
        CredentialField("public_key"),
        CredentialField("webhook_secret", is_required=True),
        *SWITCHES,
        base_url("https://api.providerc.example"),
    ),
    aliases={"secret_key": "api_key"},
    capabilities=Capabilities(virtual_accounts=False),
    build=ProviderC,
    sandbox_bank_code=lambda bank: f"C{bank.code}",
)
