"""Provider C: a payment-link gateway."""

from datetime import datetime
from typing import Any

from manilla.kit import strict_json
from manilla.kit.money import Money
from manilla.providers import reading, signatures, wire
from manilla.providers.kind import (
    PAY_IN_ENABLED,
    PAY_OUT_ENABLED,
    SANDBOX,
    AdapterContext,
    Capabilities,
    CredentialField,
    ProviderKind,
    base_url,
)
from manilla.providers.port import (
    NO_STATEMENTS,
    OUR_REFERENCE,
    Answer,
    Bank,
    ChargeOrder,
    ChargeState,
    Done,
    EventKind,
    Forged,
    Headers,
    HostedCheckout,
    KnownAs,
    RefundOrder,
    RefundState,
    RefusalCode,
    Refused,
    ReportedChargeStatus,
    ReportedRefundStatus,
    ResolvedAccount,
    Sent,
    StatementPage,
    TransferOrder,
    TransferState,
    TransferStatus,
    Unknown,
    Unreadable,
    VirtualAccount,
    Webhook,
    WebhookEvent,
)
from manilla.providers.reading import Malformed
from manilla.providers.wire import Reply, read_word

CHARGE_STATUSES = {
    "pending": ReportedChargeStatus.PENDING,
    "successful": ReportedChargeStatus.PAID,
    "failed": ReportedChargeStatus.FAILED,
}
TRANSFER_STATUSES = {
    "NEW": TransferStatus.PENDING,
    "PENDING": TransferStatus.PENDING,
    "SUCCESSFUL": TransferStatus.DELIVERED,
    "FAILED": TransferStatus.FAILED,
    "REVERSED": TransferStatus.REVERSED,
}
REFUND_STATUSES = {"completed": ReportedRefundStatus.PAID, "pending": ReportedRefundStatus.PENDING}


class ProviderC:
    def __init__(self, context: AdapterContext) -> None:
        current = context.credentials
        headers = {"Authorization": f"Bearer {current.value('secret_key')}"}
        self.provider = current.provider
        self._wire = context.wire(headers, read_word)
        self._pay_in = context.pay_in
        self._pay_out = context.pay_out
        self._webhook_secret = current.value("webhook_secret").encode()

    async def create_checkout(self, order: ChargeOrder) -> Answer[HostedCheckout]:
        def read(reply: Reply) -> Answer[HostedCheckout]:
            return wire.charge_answer(
                reply, lambda data: HostedCheckout(reading.web_address(data, "link"))
            )

        body = {
            "tx_ref": order.reference,
            "amount": order.amount.amount,
            "currency": order.amount.currency,
            "redirect_url": order.redirect_url,
            "customer": {"email": order.customer_email, "name": order.customer_name},
            "customizations": {"title": order.merchant_name, "description": order.description},
        }
        return await self._wire.call(self._pay_in, "POST", "/v3/payments", read, body=body)

    async def create_virtual_account(
        self, order: ChargeOrder, bvn: str | None
    ) -> Answer[VirtualAccount]:
        del order, bvn
        return Refused(RefusalCode.NOT_SUPPORTED, "Provider C has no virtual accounts.")

    async def charge_state(self, reference: str) -> Answer[ChargeState]:
        def read(reply: Reply) -> Answer[ChargeState]:
            if reply.status in (400, 404) and not reply.is_success and _says_not_found(reply):
                return Done(ChargeState(ReportedChargeStatus.NOT_FOUND))
            return wire.done(reply, lambda data: _charge_state(data, reference))

        return await self._wire.call(
            self._pay_in,
            "GET",
            "/v3/transactions/verify_by_reference",
            read,
            query={"tx_ref": reference},
        )

    async def refund(self, order: RefundOrder) -> Answer[RefundState]:
        charge = await self.charge_state(order.charge_reference)
        if not isinstance(charge, Done):
            return charge
        if charge.value.provider_reference is None:
            return Unknown("the provider does not know the charge")

        def read(reply: Reply) -> Answer[RefundState]:
            return wire.refund_answer(
                reply,
                lambda data: RefundState(
                    reading.one_of(REFUND_STATUSES, data, "status"),
                    reading.optional_money(data, "amount_refunded", order.amount.currency),
                ),
            )

        return await self._wire.call(
            self._pay_in,
            "POST",
            f"/v3/transactions/{charge.value.provider_reference}/refund",
            read,
            body={"amount": order.amount.amount, "reference": order.reference},
        )

    async def refund_state(
        self, reference: str, known: KnownAs = OUR_REFERENCE
    ) -> Answer[RefundState]:
        del reference
        return Unknown("provider C has no status query for refunds")

    async def banks(self) -> Answer[list[Bank]]:
        return await self._wire.call(
            self._pay_out, "GET", "/v3/banks/NG", lambda reply: wire.done(reply, reading.banks)
        )

    async def resolve(self, bank_code: str, account_number: str) -> Answer[ResolvedAccount]:
        def read(reply: Reply) -> Answer[ResolvedAccount]:
            return wire.transfer_answer(
                reply, lambda data: ResolvedAccount(reading.text(data, "account_name"))
            )

        return await self._wire.call(
            self._pay_out,
            "POST",
            "/v3/accounts/resolve",
            read,
            body={"account_number": account_number, "account_bank": bank_code},
        )

    async def balance(self, currency: str) -> Answer[Money]:
        def read(data: Any) -> Money:
            reading.same_reference(data, "currency", currency)
            return reading.money(data, "available_balance", currency)

        return await self._wire.call(
            self._pay_out, "GET", f"/v3/balances/{currency}", lambda reply: wire.done(reply, read)
        )

    async def statement(
        self, since: datetime, until: datetime, currency: str, start: str | None = None
    ) -> Answer[StatementPage]:
        return NO_STATEMENTS

    def transfer_reference(self, trx_id: str) -> str:
        return trx_id

    async def send(self, order: TransferOrder) -> Answer[Sent]:
        def read(reply: Reply) -> Answer[Sent]:
            return wire.transfer_answer(reply, lambda data: _sent(data, order))

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
        return await self._wire.call(self._pay_out, "POST", "/v3/transfers", read, body=body)

    async def transfer_state(self, reference: str) -> Answer[TransferState]:
        def read(data: Any) -> TransferState:
            found = reading.items(data)
            if not found:
                return TransferState(TransferStatus.NOT_FOUND)
            if len(found) > 1:
                raise Malformed("more than one transfer")
            return _transfer_state(found[0], reference)

        return await self._wire.call(
            self._pay_out,
            "GET",
            "/v3/transfers",
            lambda reply: wire.done(reply, read),
            query={"reference": reference},
        )

    def read_webhook(self, headers: Headers, raw: bytes) -> Webhook:
        if not signatures.is_hex_hmac(headers, b"x-providerc-signature", self._webhook_secret, raw):
            return Forged()
        try:
            document = strict_json.decode(raw)
            event, data = reading.text(document, "event"), reading.field(document, "data")
            claim, status = reading.claimed(data), reading.optional_text(data, "status")
            if event == "charge.completed":
                reference = reading.text(data, "tx_ref")
                paid = CHARGE_STATUSES.get(status)
                return WebhookEvent(EventKind.CHARGE, reference, claim, paid)
            if event == "transfer.completed":
                reference = reading.text(data, "reference")
                said = TRANSFER_STATUSES.get(status)
                if said is TransferStatus.PENDING:
                    said = None
                return WebhookEvent(EventKind.TRANSFER, reference, claim, said)
            return Unreadable("the event is not in the contract")
        except (strict_json.JsonError, Malformed) as error:
            return Unreadable(str(error))


def _says_not_found(reply: Reply) -> bool:
    message = reply.message.lower()
    return "not found" in message or "no transaction" in message


def _charge_state(data: Any, reference: str) -> ChargeState:
    reading.same_reference(data, "tx_ref", reference)
    status = reading.one_of(CHARGE_STATUSES, data, "status")
    currency = reading.currency(data, "currency")
    return ChargeState(
        status=status,
        paid=reading.money(data, "amount", currency)
        if status is ReportedChargeStatus.PAID
        else None,
        fee=reading.optional_money(data, "app_fee", currency),
        reason=reading.optional_text(data, "processor_response"),
        provider_reference=reading.text_or_number(data, "id"),
    )


def _sent(data: Any, order: TransferOrder) -> Sent:
    reading.same_reference(data, "reference", order.reference)
    return Sent(
        reading.text_or_number(data, "id"),
        reading.optional_money(data, "fee", order.amount.currency),
    )


def _transfer_state(data: Any, reference: str) -> TransferState:
    reading.same_reference(data, "reference", reference)
    # Transfers in the contract have no currency, because the rail supports only naira.
    return TransferState(
        status=reading.one_of(TRANSFER_STATUSES, data, "status"),
        amount=reading.money(data, "amount", "NGN"),
        fee=reading.optional_money(data, "fee", "NGN"),
        message=reading.optional_text(data, "complete_message"),
        provider_reference=reading.text_or_number(data, "id"),
    )


KIND = ProviderKind(
    name="providerc",
    title="Provider C",
    fields=(
        CredentialField("secret_key", is_required=True),
        CredentialField("api_key"),
        CredentialField("public_key"),
        CredentialField("webhook_secret", is_required=True),
        SANDBOX,
        PAY_IN_ENABLED,
        PAY_OUT_ENABLED,
        base_url("https://api.providerc.example"),
    ),
    aliases={"secret_key": "api_key"},
    capabilities=Capabilities(virtual_accounts=False),
    build=ProviderC,
    sandbox_bank_code=lambda bank: f"C{bank.code}",
)
