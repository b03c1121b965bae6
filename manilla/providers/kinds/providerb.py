"""Provider B: a virtual-account bank without webhooks for transfers and without refunds."""

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

PAYMENTS = "/pms/transactions"
REQUESTS = "/pms/api/external/request"
WALLET = f"{REQUESTS}/wallet"

# The first name is the CGI spelling of the second; proxies drop names with underscores.
SIGNATURES = (b"http_providerb_signature", b"providerb-signature")

CHARGE_STATUSES = {
    "PENDING": ReportedChargeStatus.PENDING,
    "SUCCESS": ReportedChargeStatus.PAID,
    "FAILED": ReportedChargeStatus.FAILED,
}
TRANSFER_STATUSES = {
    "pending": TransferStatus.PENDING,
    "success": TransferStatus.DELIVERED,
    "failed": TransferStatus.FAILED,
    "reversed": TransferStatus.REVERSED,
}
NO_REFUND = Refused(
    RefusalCode.NOT_SUPPORTED, "Provider B has no refunds: an administrator pays it."
)


class ProviderB:
    def __init__(self, context: AdapterContext) -> None:
        current = context.credentials
        secret_key = current.value("secret_key")
        self.provider = current.provider
        self._wire = context.wire(
            {"api-key": current.value("api_key"), "api-secret": f"Bearer {secret_key}"}
        )
        self._pay_in = context.pay_in
        self._pay_out = context.pay_out
        # The provider signs with the secret key if no webhook secret is set.
        self._webhook_secret = (current.value("webhook_secret") or secret_key).encode()
        self._business_id = current.value("business_id")
        self._virtual_account_bank = current.value("default_va_bank")

    async def create_checkout(self, order: ChargeOrder) -> Answer[HostedCheckout]:
        def read(reply: Reply) -> Answer[HostedCheckout]:
            return wire.charge_answer(
                reply, lambda data: HostedCheckout(reading.web_address(data, "checkout_url"))
            )

        body = {
            **self._charge(order),
            "currency": order.amount.currency,
            "redirect_url": order.redirect_url,
        }
        return await self._wire.call(
            self._pay_in, "POST", f"{PAYMENTS}/initialize/", read, body=body
        )

    async def create_virtual_account(
        self, order: ChargeOrder, bvn: str | None
    ) -> Answer[VirtualAccount]:
        """The account accepts only the exact amount. No BVN is required."""
        del bvn

        def read(reply: Reply) -> Answer[VirtualAccount]:
            return wire.charge_answer(reply, lambda data: _virtual_account(data, order))

        banks = [self._virtual_account_bank] if self._virtual_account_bank else []
        return await self._wire.call(
            self._pay_in,
            "POST",
            f"{REQUESTS}/customerReservedAccount/",
            read,
            body={**self._charge(order), "bankcode": banks, "account_type": "DYNAMIC"},
        )

    async def charge_state(self, reference: str) -> Answer[ChargeState]:
        def read(reply: Reply) -> Answer[ChargeState]:
            if wire.is_not_found(reply):
                return Done(ChargeState(ReportedChargeStatus.NOT_FOUND))
            return wire.done(reply, lambda data: _charge_state(data, reference))

        return await self._wire.call(self._pay_in, "GET", f"{PAYMENTS}/{reference}/confirm/", read)

    async def refund(self, order: RefundOrder) -> Answer[RefundState]:
        del order
        return NO_REFUND

    async def refund_state(
        self, reference: str, known: KnownAs = OUR_REFERENCE
    ) -> Answer[RefundState]:
        del reference
        return NO_REFUND

    async def banks(self) -> Answer[list[Bank]]:
        def read(data: Any) -> list[Bank]:
            return [
                Bank(reading.text(bank, "bank_code"), reading.text(bank, "bank_name"))
                for bank in reading.items(data)
                if reading.field(bank, "is_active") is True
            ]

        return await self._wire.call(
            self._pay_out, "GET", f"{WALLET}/banks/", lambda reply: wire.done(reply, read)
        )

    async def resolve(self, bank_code: str, account_number: str) -> Answer[ResolvedAccount]:
        def read(reply: Reply) -> Answer[ResolvedAccount]:
            return wire.transfer_answer(
                reply,
                lambda data: ResolvedAccount(
                    reading.text(data, "account_name"),
                    reading.optional_text(data, "name_enquiry_reference") or None,
                ),
            )

        return await self._wire.call(
            self._pay_out,
            "POST",
            f"{WALLET}/validate-account/",
            read,
            body={"account_number": account_number, "bank_code": bank_code},
        )

    async def balance(self, currency: str) -> Answer[Money]:
        return await self._wire.call(
            self._pay_out,
            "GET",
            f"{WALLET}/balance/",
            lambda reply: wire.done(
                reply, lambda data: reading.money(data, "available_balance", currency)
            ),
        )

    async def statement(
        self, since: datetime, until: datetime, currency: str, start: str | None = None
    ) -> Answer[StatementPage]:
        return NO_STATEMENTS

    def transfer_reference(self, trx_id: str) -> str:
        return trx_id

    async def send(self, order: TransferOrder) -> Answer[Sent]:
        def read(reply: Reply) -> Answer[Sent]:
            return wire.transfer_answer(reply, lambda data: _sent(data, order.reference))

        body = {
            "reference": order.reference,
            "amount": str(order.amount.amount),
            "account_number": order.account_number,
            "bank_code": order.bank_code,
            "account_name": order.account_name,
            "narration": order.narration,
            "name_enquiry_reference": order.name_enquiry_reference or "",
        }
        return await self._wire.call(self._pay_out, "POST", f"{WALLET}/transfer/", read, body=body)

    async def transfer_state(self, reference: str) -> Answer[TransferState]:
        def read(reply: Reply) -> Answer[TransferState]:
            if wire.is_not_found(reply):
                return Done(TransferState(TransferStatus.NOT_FOUND))
            return wire.done(reply, lambda data: _transfer_state(data, reference))

        return await self._wire.call(
            self._pay_out,
            "POST",
            f"{WALLET}/transfer-status/",
            read,
            body={"reference": reference},
        )

    def read_webhook(self, headers: Headers, raw: bytes) -> Webhook:
        given = [name for name in SIGNATURES if name in headers]
        if len(given) != 1 or not signatures.is_hex_hmac(
            headers, given[0], self._webhook_secret, raw, digest="sha512"
        ):
            return Forged()
        try:
            document = strict_json.decode(raw)
            reference = reading.text(reading.field(document, "transaction"), "reference")
            claim = reading.claimed(document.get("order"))
            status = (
                ReportedChargeStatus.PAID if _says_paid(document) else ReportedChargeStatus.FAILED
            )
            return WebhookEvent(EventKind.CHARGE, reference, claim, status)
        except (strict_json.JsonError, Malformed) as error:
            return Unreadable(str(error))

    def _charge(self, order: ChargeOrder) -> dict[str, Any]:
        return {
            "businessid": self._business_id,
            "reference": order.reference,
            "amount": str(order.amount.amount),
            "email": order.customer_email,
            "name": order.customer_name,
        }


def _says_paid(document: Any) -> bool:
    return bool(document.get("code") == "00")


def _virtual_account(data: Any, order: ChargeOrder) -> VirtualAccount:
    banks = reading.items(reading.field(data, "banks"))
    if not banks:
        raise Malformed("no bank")
    account = banks[0]
    return VirtualAccount(
        bank_name=reading.text(account, "bankName"),
        account_number=reading.text(account, "accountNumber"),
        account_name=reading.text(account, "accountName"),
        amount=order.amount,
        expires_at=reading.moment(account, "expireDate"),
    )


def _charge_state(data: Any, reference: str) -> ChargeState:
    reading.same_reference(data, "reference", reference)
    status = reading.one_of(CHARGE_STATUSES, data, "status")
    currency = reading.currency(data, "currency")
    return ChargeState(
        status=status,
        paid=reading.money(data, "amount", currency)
        if status is ReportedChargeStatus.PAID
        else None,
        fee=reading.optional_money(data, "fee", currency),
        reason=reading.optional_text(data, "reason"),
    )


def _sent(data: Any, reference: str) -> Sent:
    reading.same_reference(data, "reference", reference)
    session_id = reading.optional_text(data, "session_id") or None
    return Sent(session_id, None, session_id)


def _transfer_state(data: Any, reference: str) -> TransferState:
    reading.same_reference(data, "reference", reference)
    session_id = reading.optional_text(data, "session_id") or None
    return TransferState(
        status=reading.one_of(TRANSFER_STATUSES, data, "status"),
        message=reading.optional_text(data, "reason"),
        provider_reference=session_id,  # it is also provider B's only reference
        session_id=session_id,
    )


KIND = ProviderKind(
    name="providerb",
    title="Provider B",
    fields=(
        CredentialField("api_key", is_required=True),
        CredentialField("secret_key", is_required=True),
        CredentialField("webhook_secret"),
        CredentialField("business_id", is_secret=False, is_required=True),
        CredentialField("default_va_bank", is_secret=False),
        SANDBOX,
        PAY_IN_ENABLED,
        PAY_OUT_ENABLED,
        base_url("https://api.providerb.example"),
    ),
    build=ProviderB,
    sandbox_bank_code=lambda bank: bank.nip_code,
)
