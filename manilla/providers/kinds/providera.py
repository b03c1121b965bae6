"""The adapter for Provider A, a gateway for collections and payouts."""

from typing import Any

from manilla.kit.money import Money
from manilla.providers import port, reading, replies
from manilla.providers.kind import (
    SANDBOX,
    AdapterContext,
    BaseAdapter,
    Capabilities,
    CredentialField,
    ProviderKind,
    base_url,
)
from manilla.providers.port import Answer, Refused
from manilla.providers.reading import Malformed

API = "/merchant/api/v1"

CHARGE_STATUSES = {
    "processing": port.ReportedChargeStatus.PENDING,
    "success": port.ReportedChargeStatus.PAID,
    "failed": port.ReportedChargeStatus.FAILED,
    "expired": port.ReportedChargeStatus.EXPIRED,
}
TRANSFER_STATUSES = {
    "processing": port.TransferStatus.PENDING,
    "success": port.TransferStatus.DELIVERED,
    "failed": port.TransferStatus.FAILED,
    "reversed": port.TransferStatus.REVERSED,
}
REFUND_STATUSES = {
    "processing": port.ReportedRefundStatus.PENDING,
    "success": port.ReportedRefundStatus.PAID,
    "failed": port.ReportedRefundStatus.FAILED,
}
EVENTS: dict[str, tuple[port.WebhookSubject, port.ReportedStatus]] = {
    "charge.success": (port.WebhookSubject.CHARGE, port.ReportedChargeStatus.PAID),
    "charge.failed": (port.WebhookSubject.CHARGE, port.ReportedChargeStatus.FAILED),
    "transfer.success": (port.WebhookSubject.TRANSFER, port.TransferStatus.DELIVERED),
    "transfer.failed": (port.WebhookSubject.TRANSFER, port.TransferStatus.FAILED),
    "transfer.reversed": (port.WebhookSubject.TRANSFER, port.TransferStatus.REVERSED),
    "refund.success": (port.WebhookSubject.REFUND, port.ReportedRefundStatus.PAID),
    "refund.failed": (port.WebhookSubject.REFUND, port.ReportedRefundStatus.FAILED),
}


class ProviderA(BaseAdapter):
    def __init__(self, context: AdapterContext) -> None:
        current = context.credentials
        super().__init__(context, {"Authorization": f"Bearer {current.value('secret_key')}"})
        self._webhook_secret = current.value("webhook_secret").encode()

    async def create_checkout(self, order: port.ChargeOrder) -> Answer[port.HostedCheckout]:
        body = {
            **_charge(order),
            "narration": order.description,
            "redirect_url": order.redirect_url,
        }
        return await self._pay_in.post(
            f"{API}/charges/initialize",
            body,
            lambda data: _checkout(data, order.reference),
            replies.decide_payment,
        )

    async def create_virtual_account(
        self, order: port.ChargeOrder, bvn: str | None
    ) -> Answer[port.VirtualAccount]:
        if bvn is None:
            return Refused(port.RefusalCode.PAYMENT_DECLINED, "The merchant's profile has no BVN.")
        return await self._pay_in.post(
            f"{API}/charges/bank-transfer",
            {**_charge(order), "kyc": {"bvn": bvn}},
            lambda data: _virtual_account(data, order),
            replies.decide_payment,
        )

    async def charge_state(self, reference: str) -> Answer[port.ChargeState]:
        return await self._pay_in.get(
            f"{API}/charges/{reference}",
            lambda data: _charge_state(data, reference),
            replies.find_charge,
        )

    async def refund(self, order: port.RefundOrder) -> Answer[port.RefundState]:
        body = {
            "reference": order.reference,
            "payment_reference": order.charge_reference,
            "amount": order.amount.amount,
            "reason": order.reason,
        }
        return await self._pay_in.post(
            f"{API}/refunds/initiate",
            body,
            lambda data: _refund_state(data, order.reference),
            replies.decide_payment,
        )

    async def refund_state(
        self, reference: str, known: port.KnownAs = port.OUR_REFERENCE
    ) -> Answer[port.RefundState]:
        return await self._pay_in.get(
            f"{API}/refunds/{reference}",
            lambda data: _refund_state(data, reference),
            replies.find_refund,
        )

    async def banks(self) -> Answer[list[port.Bank]]:
        query = {"countryCode": "NG"}
        return await self._pay_out.get(f"{API}/misc/banks", reading.banks, query=query)

    async def resolve(self, bank_code: str, account_number: str) -> Answer[port.ResolvedAccount]:
        return await self._pay_out.post(
            f"{API}/misc/banks/resolve",
            {"bank": bank_code, "account": account_number, "currency": "NGN"},
            reading.read_account,
            replies.decide_transfer,
        )

    async def balance(self, currency: str) -> Answer[Money]:
        def read(data: Any) -> Money:
            return reading.money(reading.field(data, currency), "available_balance", currency)

        return await self._pay_out.get(f"{API}/balances", read)

    async def send(self, order: port.TransferOrder) -> Answer[port.Sent]:
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
        return await self._pay_out.post(
            f"{API}/transactions/disburse",
            body,
            lambda data: _sent(data, order),
            replies.decide_transfer,
        )

    async def transfer_state(self, reference: str) -> Answer[port.TransferState]:
        return await self._pay_out.get(
            f"{API}/transactions/{reference}",
            lambda data: _transfer_state(data, reference),
            replies.find_transfer,
        )

    def read_webhook(self, headers: port.Headers, raw: bytes) -> port.Webhook:
        if not reading.is_hex_hmac(headers, b"x-providera-signature", self._webhook_secret, raw):
            return port.Forged()
        return reading.webhook(raw, _event)


def _event(document: Any) -> port.WebhookEvent:
    event, data = reading.text(document, "event"), reading.field(document, "data")
    if event not in EVENTS:
        raise Malformed("the event is not in the contract")
    kind, status = EVENTS[event]
    reference = reading.text(data, "reference")
    return port.WebhookEvent(kind, reference, reading.read_claim(data), status)


def _charge(order: port.ChargeOrder) -> dict[str, Any]:
    return {
        "reference": order.reference,
        "amount": order.amount.amount,
        "currency": order.amount.currency,
        "notification_url": order.notification_url,
        "customer": {"name": order.customer_name, "email": order.customer_email},
    }


def _checkout(data: Any, reference: str) -> port.HostedCheckout:
    reading.same_reference(data, "reference", reference)
    return port.HostedCheckout(reading.web_address(data, "checkout_url"))


def _virtual_account(data: Any, order: port.ChargeOrder) -> port.VirtualAccount:
    reading.same_reference(data, "reference", order.reference)
    account = reading.field(data, "bank_account")
    return port.VirtualAccount(
        bank_name=reading.text(account, "bank_name"),
        account_number=reading.text(account, "account_number"),
        account_name=reading.text(account, "account_name"),
        amount=reading.money(data, "amount_expected", order.amount.currency),
        expires_at=reading.moment(account, "expiry_date_in_utc"),
    )


def _charge_state(data: Any, reference: str) -> port.ChargeState:
    reading.same_reference(data, "reference", reference)
    status = reading.one_of(CHARGE_STATUSES, data, "status")
    currency = reading.currency(data, "currency")
    is_paid = status is port.ReportedChargeStatus.PAID
    paid = "amount" if data.get("amount_paid") is None else "amount_paid"
    return port.ChargeState(
        status=status,
        paid=reading.money(data, paid, currency) if is_paid else None,
        fee=reading.fee(data, "fee", currency),
        reason=reading.optional_text(data, "reason"),
    )


def _sent(data: Any, order: port.TransferOrder) -> port.Sent:
    reading.same_reference(data, "reference", order.reference)
    return port.Sent(
        reading.optional_text(data, "trace_id") or None,
        reading.fee(data, "fee", order.amount.currency),
    )


def _transfer_state(data: Any, reference: str) -> port.TransferState:
    reading.same_reference(data, "reference", reference)
    currency = reading.currency(data, "currency")
    return port.TransferState(
        status=reading.one_of(TRANSFER_STATUSES, data, "status"),
        amount=reading.money(data, "amount", currency),
        fee=reading.fee(data, "fee", currency),
        message=reading.optional_text(data, "message"),
        provider_reference=reading.optional_text(data, "trace_id") or None,
    )


def _refund_state(data: Any, reference: str) -> port.RefundState:
    reading.same_reference(data, "reference", reference)
    # According to the contract, refunds have no currency, because the rail supports only naira.
    return port.RefundState(
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
        channels=frozenset((port.Channel.CARD, port.Channel.BANK_TRANSFER)),
        virtual_account_needs_bvn=True,
        refund_status=True,
        resend_refund=True,
    ),
    build=ProviderA,
)
