"""Provider A: a collections and payouts gateway."""

from datetime import datetime
from typing import Any

from manilla.kit import strict_json
from manilla.kit.money import Money
from manilla.providers import reading, signatures, wire
from manilla.providers.kind import (
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
    Channel,
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
    Unreadable,
    VirtualAccount,
    Webhook,
    WebhookEvent,
)
from manilla.providers.reading import Malformed
from manilla.providers.wire import Reply

API = "/merchant/api/v1"

CHARGE_STATUSES = {
    "processing": ReportedChargeStatus.PENDING,
    "success": ReportedChargeStatus.PAID,
    "failed": ReportedChargeStatus.FAILED,
    "expired": ReportedChargeStatus.EXPIRED,
}
TRANSFER_STATUSES = {
    "processing": TransferStatus.PENDING,
    "success": TransferStatus.DELIVERED,
    "failed": TransferStatus.FAILED,
    "reversed": TransferStatus.REVERSED,
}
REFUND_STATUSES = {
    "processing": ReportedRefundStatus.PENDING,
    "success": ReportedRefundStatus.PAID,
    "failed": ReportedRefundStatus.FAILED,
}
EVENTS: dict[
    str, tuple[EventKind, ReportedChargeStatus | TransferStatus | ReportedRefundStatus]
] = {
    "charge.success": (EventKind.CHARGE, ReportedChargeStatus.PAID),
    "charge.failed": (EventKind.CHARGE, ReportedChargeStatus.FAILED),
    "transfer.success": (EventKind.TRANSFER, TransferStatus.DELIVERED),
    "transfer.failed": (EventKind.TRANSFER, TransferStatus.FAILED),
    "transfer.reversed": (EventKind.TRANSFER, TransferStatus.REVERSED),
    "refund.success": (EventKind.REFUND, ReportedRefundStatus.PAID),
    "refund.failed": (EventKind.REFUND, ReportedRefundStatus.FAILED),
}


class ProviderA:
    def __init__(self, context: AdapterContext) -> None:
        current = context.credentials
        self.provider = current.provider
        self._wire = context.wire({"Authorization": f"Bearer {current.value('secret_key')}"})
        self._pay_in = context.pay_in
        self._pay_out = context.pay_out
        self._webhook_secret = current.value("webhook_secret").encode()

    async def create_checkout(self, order: ChargeOrder) -> Answer[HostedCheckout]:
        def read(reply: Reply) -> Answer[HostedCheckout]:
            return wire.charge_answer(reply, lambda data: _checkout(data, order.reference))

        body = {
            **_charge(order),
            "narration": order.description,
            "redirect_url": order.redirect_url,
        }
        return await self._wire.call(
            self._pay_in, "POST", f"{API}/charges/initialize", read, body=body
        )

    async def create_virtual_account(
        self, order: ChargeOrder, bvn: str | None
    ) -> Answer[VirtualAccount]:
        if bvn is None:
            return Refused(RefusalCode.PAYMENT_DECLINED, "The merchant's profile has no BVN.")

        def read(reply: Reply) -> Answer[VirtualAccount]:
            return wire.charge_answer(reply, lambda data: _virtual_account(data, order))

        return await self._wire.call(
            self._pay_in,
            "POST",
            f"{API}/charges/bank-transfer",
            read,
            body={**_charge(order), "kyc": {"bvn": bvn}},
        )

    async def charge_state(self, reference: str) -> Answer[ChargeState]:
        def read(reply: Reply) -> Answer[ChargeState]:
            if wire.is_not_found(reply):
                return Done(ChargeState(ReportedChargeStatus.NOT_FOUND))
            return wire.done(reply, lambda data: _charge_state(data, reference))

        return await self._wire.call(self._pay_in, "GET", f"{API}/charges/{reference}", read)

    async def refund(self, order: RefundOrder) -> Answer[RefundState]:
        def read(reply: Reply) -> Answer[RefundState]:
            return wire.refund_answer(reply, lambda data: _refund_state(data, order.reference))

        body = {
            "reference": order.reference,
            "payment_reference": order.charge_reference,
            "amount": order.amount.amount,
            "reason": order.reason,
        }
        return await self._wire.call(
            self._pay_in, "POST", f"{API}/refunds/initiate", read, body=body
        )

    async def refund_state(
        self, reference: str, known: KnownAs = OUR_REFERENCE
    ) -> Answer[RefundState]:
        def read(reply: Reply) -> Answer[RefundState]:
            if wire.is_not_found(reply):
                return Done(RefundState(ReportedRefundStatus.NOT_FOUND))
            return wire.done(reply, lambda data: _refund_state(data, reference))

        return await self._wire.call(self._pay_in, "GET", f"{API}/refunds/{reference}", read)

    async def banks(self) -> Answer[list[Bank]]:
        return await self._wire.call(
            self._pay_out,
            "GET",
            f"{API}/misc/banks",
            lambda reply: wire.done(reply, reading.banks),
            query={"countryCode": "NG"},
        )

    async def resolve(self, bank_code: str, account_number: str) -> Answer[ResolvedAccount]:
        def read(reply: Reply) -> Answer[ResolvedAccount]:
            return wire.transfer_answer(
                reply, lambda data: ResolvedAccount(reading.text(data, "account_name"))
            )

        return await self._wire.call(
            self._pay_out,
            "POST",
            f"{API}/misc/banks/resolve",
            read,
            body={"bank": bank_code, "account": account_number, "currency": "NGN"},
        )

    async def balance(self, currency: str) -> Answer[Money]:
        def read(data: Any) -> Money:
            return reading.money(reading.field(data, currency), "available_balance", currency)

        return await self._wire.call(
            self._pay_out, "GET", f"{API}/balances", lambda reply: wire.done(reply, read)
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
            "destination": {
                "type": "bank_account",
                "amount": order.amount.amount,
                "currency": order.amount.currency,
                "narration": order.narration,
                "bank_account": {"bank": order.bank_code, "account": order.account_number},
                "customer": {"name": order.account_name, "email": order.customer_email},
            },
        }
        return await self._wire.call(
            self._pay_out, "POST", f"{API}/transactions/disburse", read, body=body
        )

    async def transfer_state(self, reference: str) -> Answer[TransferState]:
        def read(reply: Reply) -> Answer[TransferState]:
            if wire.is_not_found(reply):
                return Done(TransferState(TransferStatus.NOT_FOUND))
            return wire.done(reply, lambda data: _transfer_state(data, reference))

        return await self._wire.call(self._pay_out, "GET", f"{API}/transactions/{reference}", read)

    def read_webhook(self, headers: Headers, raw: bytes) -> Webhook:
        if not signatures.is_hex_hmac(headers, b"x-providera-signature", self._webhook_secret, raw):
            return Forged()
        try:
            document = strict_json.decode(raw)
            event, data = reading.text(document, "event"), reading.field(document, "data")
            if event not in EVENTS:
                return Unreadable("the event is not in the contract")
            kind, status = EVENTS[event]
            reference = reading.text(data, "reference")
            return WebhookEvent(kind, reference, reading.claimed(data), status)
        except (strict_json.JsonError, Malformed) as error:
            return Unreadable(str(error))


def _charge(order: ChargeOrder) -> dict[str, Any]:
    return {
        "reference": order.reference,
        "amount": order.amount.amount,
        "currency": order.amount.currency,
        "notification_url": order.notification_url,
        "customer": {"name": order.customer_name, "email": order.customer_email},
    }


def _checkout(data: Any, reference: str) -> HostedCheckout:
    reading.same_reference(data, "reference", reference)
    return HostedCheckout(reading.web_address(data, "checkout_url"))


def _virtual_account(data: Any, order: ChargeOrder) -> VirtualAccount:
    reading.same_reference(data, "reference", order.reference)
    account = reading.field(data, "bank_account")
    return VirtualAccount(
        bank_name=reading.text(account, "bank_name"),
        account_number=reading.text(account, "account_number"),
        account_name=reading.text(account, "account_name"),
        amount=reading.money(data, "amount_expected", order.amount.currency),
        expires_at=reading.moment(account, "expiry_date_in_utc"),
    )


def _charge_state(data: Any, reference: str) -> ChargeState:
    reading.same_reference(data, "reference", reference)
    status = reading.one_of(CHARGE_STATUSES, data, "status")
    currency = reading.currency(data, "currency")
    paid = "amount" if data.get("amount_paid") is None else "amount_paid"
    return ChargeState(
        status=status,
        paid=reading.money(data, paid, currency) if status is ReportedChargeStatus.PAID else None,
        fee=reading.optional_money(data, "fee", currency),
        reason=reading.optional_text(data, "reason"),
    )


def _sent(data: Any, order: TransferOrder) -> Sent:
    reading.same_reference(data, "reference", order.reference)
    return Sent(
        reading.optional_text(data, "trace_id") or None,
        reading.optional_money(data, "fee", order.amount.currency),
    )


def _transfer_state(data: Any, reference: str) -> TransferState:
    reading.same_reference(data, "reference", reference)
    currency = reading.currency(data, "currency")
    return TransferState(
        status=reading.one_of(TRANSFER_STATUSES, data, "status"),
        amount=reading.money(data, "amount", currency),
        fee=reading.optional_money(data, "fee", currency),
        message=reading.optional_text(data, "message"),
        provider_reference=reading.optional_text(data, "trace_id") or None,
    )


def _refund_state(data: Any, reference: str) -> RefundState:
    reading.same_reference(data, "reference", reference)
    # Refunds in the contract have no currency, because the rail supports only naira.
    return RefundState(
        reading.one_of(REFUND_STATUSES, data, "status"),
        reading.optional_money(data, "amount", "NGN"),
    )


KIND = ProviderKind(
    name="providera",
    title="Provider A",
    fields=(
        CredentialField("public_key"),
        CredentialField("secret_key", is_required=True),
        CredentialField("encryption_key"),
        CredentialField("webhook_secret", is_required=True),
        SANDBOX,
        base_url("https://api.providera.example"),
    ),
    capabilities=Capabilities(
        channels=frozenset((Channel.CARD, Channel.BANK_TRANSFER)),
        virtual_account_needs_bvn=True,
        refund_status=True,
        resend_refund=True,
    ),
    build=ProviderA,
)
