"""Calls to Flutterwave. Amounts are naira; answers are read in `answers`."""

from datetime import datetime
from typing import Any

from manilla.kit import strict_json
from manilla.kit.money import Money
from manilla.providers import reading, signatures, wire
from manilla.providers.kind import AdapterContext
from manilla.providers.kinds.flutterwave import answers
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

API = "/v3"
CHANNELS = {
    Channel.CARD: "card",
    Channel.BANK_TRANSFER: "banktransfer",
    Channel.USSD: "ussd",
}
TEXT_LENGTH_MAX = 100  # of a narration, a beneficiary's name and a comment
SUFFIX = "_"  # our references have none, so it marks where a test suffix begins


class Flutterwave:
    def __init__(self, context: AdapterContext) -> None:
        current = context.credentials
        headers = {"Authorization": f"Bearer {current.value('secret_key')}"}
        self.provider = current.provider
        self._wire = context.wire(headers, read_word)
        self._pay_in = context.pay_in
        self._pay_out = context.pay_out
        self._secret_hash = current.value("secret_hash").encode()
        self._is_sandbox = current.is_sandbox
        self._suffix = current.value("test_reference_suffix").removeprefix(SUFFIX)

    async def create_checkout(self, order: ChargeOrder) -> Answer[HostedCheckout]:
        def read(reply: Reply) -> Answer[HostedCheckout]:
            return answers.to_charge(
                reply, lambda data: HostedCheckout(reading.web_address(data, "link"))
            )

        body = {
            **_charge(order),
            "redirect_url": order.redirect_url,
            "customer": {"email": order.customer_email, "name": order.customer_name},
            "customizations": {"title": order.merchant_name, "description": order.description},
        }
        if order.channel is not None:
            body["payment_options"] = CHANNELS[order.channel]
        return await self._wire.call(self._pay_in, "POST", f"{API}/payments", read, body=body)

    async def create_virtual_account(
        self, order: ChargeOrder, bvn: str | None
    ) -> Answer[VirtualAccount]:
        del bvn  # needed only for permanent accounts

        def read(reply: Reply) -> Answer[VirtualAccount]:
            # The account is in `meta`, beside `data`, which can be missing.
            return answers.to_charge(
                reply, lambda _data: answers.virtual_account(reply.document, order)
            )

        body = {
            **_charge(order),
            "email": order.customer_email,
            "is_permanent": False,
            "narration": order.merchant_name[:TEXT_LENGTH_MAX],
        }
        return await self._wire.call(
            *(self._pay_in, "POST", f"{API}/charges", read),
            body=body,
            query={"type": "bank_transfer"},
        )

    async def charge_state(self, reference: str) -> Answer[ChargeState]:
        def read(reply: Reply) -> Answer[ChargeState]:
            return answers.to_charge_query(reply, reference)

        return await self._wire.call(
            *(self._pay_in, "GET", f"{API}/transactions/verify_by_reference", read),
            query={"tx_ref": reference},
        )

    async def refund(self, order: RefundOrder) -> Answer[RefundState]:
        """Refunds a charge by Flutterwave's own id of it.

        A refund has no reference of ours. The comment has one, for people who look for it.
        """
        charge = await self.charge_state(order.charge_reference)
        if not isinstance(charge, Done):
            return charge
        transaction = charge.value.provider_reference
        if transaction is None:
            return Unknown("the provider does not know the charge")

        def read(reply: Reply) -> Answer[RefundState]:
            return answers.to_refund(reply, transaction, order.amount.currency)

        comment = f"{order.reference} {order.reason}".strip()
        return await self._wire.call(
            *(self._pay_in, "POST", f"{API}/transactions/{transaction}/refund", read),
            body={"amount": order.amount.amount, "comments": comment[:TEXT_LENGTH_MAX]},
        )

    async def refund_state(
        self, reference: str, known: KnownAs = OUR_REFERENCE
    ) -> Answer[RefundState]:
        del reference, known
        return Unknown("Flutterwave has no documented status query for refunds")

    async def banks(self) -> Answer[list[Bank]]:
        return await self._wire.call(
            *(self._pay_out, "GET", f"{API}/banks/NG"),
            lambda reply: wire.done(reply, reading.banks),
        )

    async def resolve(self, bank_code: str, account_number: str) -> Answer[ResolvedAccount]:
        def read(reply: Reply) -> Answer[ResolvedAccount]:
            return answers.to_lookup(reply, account_number)

        return await self._wire.call(
            *(self._pay_out, "POST", f"{API}/accounts/resolve", read),
            body={"account_number": account_number, "account_bank": bank_code},
        )

    async def balance(self, currency: str) -> Answer[Money]:
        return await self._wire.call(
            *(self._pay_out, "GET", f"{API}/balances/{currency}"),
            lambda reply: wire.done(reply, lambda data: answers.balance(data, currency)),
        )

    async def statement(
        self, since: datetime, until: datetime, currency: str, start: str | None = None
    ) -> Answer[StatementPage]:
        return NO_STATEMENTS

    def transfer_reference(self, trx_id: str) -> str:
        """With test keys, the end of the reference decides how the transfer ends."""
        has_suffix = self._is_sandbox and self._suffix
        return f"{trx_id}{SUFFIX}{self._suffix}" if has_suffix else trx_id

    def _trx_id(self, reference: str) -> str:
        """Undoes `transfer_reference`, also for a suffix that was set before."""
        return reference.partition(SUFFIX)[0] if self._is_sandbox else reference

    async def send(self, order: TransferOrder) -> Answer[Sent]:
        def read(reply: Reply) -> Answer[Sent]:
            return answers.to_transfer(reply, lambda data: answers.sent(data, order))

        body = {
            "account_bank": order.bank_code,
            "account_number": order.account_number,
            "amount": order.amount.amount,
            "currency": order.amount.currency,
            "debit_currency": order.amount.currency,
            "reference": order.reference,
            "narration": order.narration[:TEXT_LENGTH_MAX],
        }
        if order.account_name:
            body["beneficiary_name"] = order.account_name[:TEXT_LENGTH_MAX]
        return await self._wire.call(self._pay_out, "POST", f"{API}/transfers", read, body=body)

    async def transfer_state(self, reference: str) -> Answer[TransferState]:
        def read(reply: Reply) -> Answer[TransferState]:
            return answers.to_transfer_query(reply, reference)

        return await self._wire.call(
            *(self._pay_out, "GET", f"{API}/transfers", read), query={"reference": reference}
        )

    def read_webhook(self, headers: Headers, raw: bytes) -> Webhook:
        """The header proves who sent it, but nothing about the body."""
        if not signatures.is_shared_secret(headers, b"verif-hash", self._secret_hash):
            return Forged()
        try:
            document = strict_json.decode(raw)
            event, data = reading.text(document, "event"), reading.field(document, "data")
            return self._event(event, data)
        except (strict_json.JsonError, Malformed) as error:
            return Unreadable(str(error))

    def _event(self, event: str, data: Any) -> Webhook:
        """Both events are also sent for failures: `data.status` tells."""
        claim, status = reading.claimed(data), reading.optional_text(data, "status")
        if event == "charge.completed":
            reference = reading.text(data, "tx_ref")
            charge = answers.CHARGE_STATUSES.get(status)
            return WebhookEvent(EventKind.CHARGE, reference, claim, charge)
        if event == "transfer.completed":
            reference = self._trx_id(reading.text(data, "reference"))
            transfer = answers.TRANSFER_STATUSES.get(status)
            if transfer is TransferStatus.PENDING:
                transfer = None
            return WebhookEvent(EventKind.TRANSFER, reference, claim, transfer)
        return Unreadable("the event is not in the contract")


def _charge(order: ChargeOrder) -> dict[str, Any]:
    return {
        "tx_ref": order.reference,
        "amount": order.amount.amount,
        "currency": order.amount.currency,
    }
