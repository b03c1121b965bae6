"""The adapter for Provider B, a bank for virtual accounts without transfer webhooks or refunds."""

from typing import Any

from manilla.kit.money import Money
from manilla.providers import port, reading, replies
from manilla.providers.kind import (
    SWITCHES,
    AdapterContext,
    BaseAdapter,
    CredentialField,
    ProviderKind,
    base_url,
)
from manilla.providers.port import Answer, Refused
from manilla.providers.reading import Malformed

PAYMENTS = "/pms/transactions"
REQUESTS = "/pms/api/external/request"
WALLET = f"{REQUESTS}/wallet"

# The first name is the CGI spelling of the second. Proxies drop header names with underscores.
SIGNATURES = (b"http_providerb_signature", b"providerb-signature")

CHARGE_STATUSES = {
    "PENDING": port.ReportedChargeStatus.PENDING,
    "SUCCESS": port.ReportedChargeStatus.PAID,
    "FAILED": port.ReportedChargeStatus.FAILED,
}
TRANSFER_STATUSES = {
    "pending": port.TransferStatus.PENDING,
    "success": port.TransferStatus.DELIVERED,
    "failed": port.TransferStatus.FAILED,
    "reversed": port.TransferStatus.REVERSED,
}
NO_REFUND = Refused(
    port.RefusalCode.NOT_SUPPORTED,
    "Provider B does not support refunds. An administrator pays the refund.",
)


class ProviderB(BaseAdapter):
    def __init__(self, context: AdapterContext) -> None:
        current = context.credentials
        secret_key = current.value("secret_key")
        super().__init__(
            context, {"api-key": current.value("api_key"), "api-secret": f"Bearer {secret_key}"}
        )
        # The provider signs with the secret key if no webhook secret is set.
        self._webhook_secret = (current.value("webhook_secret") or secret_key).encode()
        self._business_id = current.value("business_id")
        self._virtual_account_bank = current.value("default_va_bank")

    async def create_checkout(self, order: port.ChargeOrder) -> Answer[port.HostedCheckout]:
        body = {
            **self._charge(order),
            "currency": order.amount.currency,
            "redirect_url": order.redirect_url,
        }
        return await self._pay_in.post(
            f"{PAYMENTS}/initialize/",
            body,
            lambda data: port.HostedCheckout(reading.web_address(data, "checkout_url")),
            replies.decide_payment,
        )

    async def create_virtual_account(
        self, order: port.ChargeOrder, bvn: str | None
    ) -> Answer[port.VirtualAccount]:
        """Opens an account that accepts only the exact amount. No BVN is required."""
        del bvn
        banks = [self._virtual_account_bank] if self._virtual_account_bank else []
        return await self._pay_in.post(
            f"{REQUESTS}/customerReservedAccount/",
            {**self._charge(order), "bankcode": banks, "account_type": "DYNAMIC"},
            lambda data: _virtual_account(data, order),
            replies.decide_payment,
        )

    async def charge_state(self, reference: str) -> Answer[port.ChargeState]:
        return await self._pay_in.get(
            f"{PAYMENTS}/{reference}/confirm/",
            lambda data: _charge_state(data, reference),
            replies.find_charge,
        )

    async def refund(self, order: port.RefundOrder) -> Answer[port.RefundState]:
        del order
        return NO_REFUND

    async def refund_state(
        self, reference: str, known: port.KnownAs = port.OUR_REFERENCE
    ) -> Answer[port.RefundState]:
        del reference
        return NO_REFUND

    async def banks(self) -> Answer[list[port.Bank]]:
        return await self._pay_out.get(f"{WALLET}/banks/", _banks)

    async def resolve(self, bank_code: str, account_number: str) -> Answer[port.ResolvedAccount]:
        body = {"account_number": account_number, "bank_code": bank_code}
        return await self._pay_out.post(
            f"{WALLET}/validate-account/", body, _resolved, replies.decide_transfer
        )

    async def balance(self, currency: str) -> Answer[Money]:
        return await self._pay_out.get(
            f"{WALLET}/balance/", lambda data: reading.money(data, "available_balance", currency)
        )

    async def send(self, order: port.TransferOrder) -> Answer[port.Sent]:
        body = {
            "reference": order.reference,
            "amount": str(order.amount.amount),
            "account_number": order.account_number,
            "bank_code": order.bank_code,
            "account_name": order.account_name,
            "narration": order.narration,
            "name_enquiry_reference": order.name_enquiry_reference or "",
        }
        return await self._pay_out.post(
            f"{WALLET}/transfer/",
            body,
            lambda data: _sent(data, order.reference),
            replies.decide_transfer,
        )

    async def transfer_state(self, reference: str) -> Answer[port.TransferState]:
        return await self._pay_out.post(
            f"{WALLET}/transfer-status/",
            {"reference": reference},
            lambda data: _transfer_state(data, reference),
            replies.find_transfer,
        )

    def read_webhook(self, headers: port.Headers, raw: bytes) -> port.Webhook:
        given = [name for name in SIGNATURES if name in headers]
        if len(given) != 1 or not reading.is_hex_hmac(
            headers, given[0], self._webhook_secret, raw, digest="sha512"
        ):
            return port.Forged()
        return reading.webhook(raw, _event)

    def _charge(self, order: port.ChargeOrder) -> dict[str, Any]:
        return {
            "businessid": self._business_id,
            "reference": order.reference,
            "amount": str(order.amount.amount),
            "email": order.customer_email,
            "name": order.customer_name,
        }


def _event(document: Any) -> port.WebhookEvent:
    reference = reading.text(reading.field(document, "transaction"), "reference")
    is_paid = document.get("code") == "00"
    status = port.ReportedChargeStatus.PAID if is_paid else port.ReportedChargeStatus.FAILED
    claim = reading.read_claim(document.get("order"))
    return port.WebhookEvent(port.WebhookSubject.CHARGE, reference, claim, status)


def _banks(data: Any) -> list[port.Bank]:
    return [
        port.Bank(reading.text(bank, "bank_code"), reading.text(bank, "bank_name"))
        for bank in reading.items(data)
        if reading.field(bank, "is_active") is True
    ]


def _resolved(data: Any) -> port.ResolvedAccount:
    return port.ResolvedAccount(
        reading.text(data, "account_name"),
        reading.optional_text(data, "name_enquiry_reference") or None,
    )


def _virtual_account(data: Any, order: port.ChargeOrder) -> port.VirtualAccount:
    banks = reading.items(reading.field(data, "banks"))
    if not banks:
        raise Malformed("no bank")
    account = banks[0]
    return port.VirtualAccount(
        bank_name=reading.text(account, "bankName"),
        account_number=reading.text(account, "accountNumber"),
        account_name=reading.text(account, "accountName"),
        amount=order.amount,
        expires_at=reading.moment(account, "expireDate"),
    )


def _charge_state(data: Any, reference: str) -> port.ChargeState:
    reading.same_reference(data, "reference", reference)
    status = reading.one_of(CHARGE_STATUSES, data, "status")
    currency = reading.currency(data, "currency")
    is_paid = status is port.ReportedChargeStatus.PAID
    return port.ChargeState(
        status=status,
        paid=reading.money(data, "amount", currency) if is_paid else None,
        fee=reading.fee(data, "fee", currency),
        reason=reading.optional_text(data, "reason"),
    )


def _sent(data: Any, reference: str) -> port.Sent:
    reading.same_reference(data, "reference", reference)
    session_id = reading.optional_text(data, "session_id") or None
    return port.Sent(session_id, None, session_id)


def _transfer_state(data: Any, reference: str) -> port.TransferState:
    reading.same_reference(data, "reference", reference)
    session_id = reading.optional_text(data, "session_id") or None
    return port.TransferState(
        status=reading.one_of(TRANSFER_STATUSES, data, "status"),
        message=reading.optional_text(data, "reason"),
        provider_reference=session_id,  # provider B reports no other reference
        session_id=session_id,
    )


KIND = ProviderKind(
    name="providerb",
    title="Provider B",
    fields=(
        CredentialField("api_key", is_required=True, label="API key"),
        CredentialField("secret_key", is_required=True),
        CredentialField("webhook_secret"),
        CredentialField("business_id", is_secret=False, is_required=True, label="Business ID"),
        CredentialField("default_va_bank", is_secret=False, label="Virtual account bank"),
        *SWITCHES,
        base_url("https://api.providerb.example"),
    ),
    build=ProviderB,
    sandbox_bank_code=lambda bank: bank.nip_code,
)
