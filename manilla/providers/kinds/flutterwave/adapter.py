"""Calls Flutterwave's API. Amounts are in naira. The module `answers` parses the responses."""

from typing import Any

from manilla.kit.money import Money
from manilla.providers import account_replies, port, reading, replies
from manilla.providers.kind import AdapterContext, BaseAdapter
from manilla.providers.kinds.flutterwave import answers, refunds
from manilla.providers.kinds.flutterwave.accounts import FlutterwaveAccounts, subject_of
from manilla.providers.kinds.flutterwave.cards import FlutterwaveCards
from manilla.providers.kinds.flutterwave.disputes import FlutterwaveChargebacks
from manilla.providers.port import Answer, Done, Unknown
from manilla.providers.reading import Malformed
from manilla.providers.replies import Reply, read_word

API = "/v3"
NAIRA = "NGN"
CHANNELS = {
    port.Channel.CARD: "card",
    port.Channel.BANK_TRANSFER: "banktransfer",
    port.Channel.USSD: "ussd",
}
TEXT_LENGTH_MAX = 100  # maximum length of a narration, a beneficiary's name and a comment
ACCOUNT_VALID_SECONDS = 30 * 60
SUFFIX = "_"  # separates our reference, which has no underscore, from a test suffix


class Flutterwave(BaseAdapter):
    def __init__(self, context: AdapterContext) -> None:
        current = context.credentials
        headers = {"Authorization": f"Bearer {current.value('secret_key')}"}
        super().__init__(context, headers, read_word)
        self.disputes = FlutterwaveChargebacks(self._pay_in)
        self.accounts = FlutterwaveAccounts(self._pay_in)
        self.cards = FlutterwaveCards(self._pay_in)
        self._secret_hash = current.value("secret_hash").encode()
        self._is_sandbox = current.is_sandbox
        self._suffix = current.value("test_reference_suffix").removeprefix(SUFFIX)

    async def create_checkout(self, order: port.ChargeOrder) -> Answer[port.HostedCheckout]:
        body = {
            **_charge(order),
            "redirect_url": order.redirect_url,
            "customer": {"email": order.customer_email, "name": order.customer_name},
            "customizations": {"title": order.merchant_name, "description": order.description},
        }
        if order.channel is not None:
            body["payment_options"] = CHANNELS[order.channel]
        return await self._pay_in.post(
            f"{API}/payments", body, answers.checkout, replies.decide_payment
        )

    async def create_virtual_account(
        self, order: port.ChargeOrder, bvn: str | None
    ) -> Answer[port.VirtualAccount]:
        del bvn  # only permanent accounts need a BVN

        def read(reply: Reply) -> Answer[port.VirtualAccount]:
            # The account is in the response's `meta` field, and `data` can be missing.
            return replies.decide_payment(
                reply, lambda _data: answers.virtual_account(reply.document, order)
            )

        body = {
            **_charge(order),
            "email": order.customer_email,
            "is_permanent": False,
            "narration": order.merchant_name[:TEXT_LENGTH_MAX],
            "expires": ACCOUNT_VALID_SECONDS,
        }
        query = {"type": "bank_transfer"}
        return await self._pay_in.call("POST", f"{API}/charges", read, body=body, query=query)

    async def charge_state(self, reference: str) -> Answer[port.ChargeState]:
        return await self._pay_in.get(
            f"{API}/transactions/verify_by_reference",
            lambda data: answers.charge_state(data, reference),
            answers.find_charge,
            query={"tx_ref": reference},
        )

    async def refund(self, order: port.RefundOrder) -> Answer[port.RefundState]:
        """Refunds a charge by Flutterwave's own id.

        Flutterwave's refunds have no field for our reference, so the comment contains it for manual
        searches.
        """
        transaction: str | None = order.charge_reference
        if not order.charge_reference.isdecimal():  # otherwise it is Flutterwave's own id
            charge = await self.charge_state(order.charge_reference)
            if not isinstance(charge, Done):
                return charge
            transaction = charge.value.provider_reference
        if transaction is None:
            return Unknown("the provider does not know the charge")
        comment = f"{order.reference} {order.reason}".strip()
        return await self._pay_in.post(
            f"{API}/transactions/{transaction}/refund",
            {"amount": order.amount.amount, "comments": comment[:TEXT_LENGTH_MAX]},
            lambda data: refunds.new_refund(data, transaction, order.amount.currency),
            answers.decide_refund,
        )

    async def refund_state(
        self, reference: str, known: port.KnownAs = port.OUR_REFERENCE
    ) -> Answer[port.RefundState]:
        """Queries a refund by Flutterwave's own id, which the response to the refund contains."""
        del reference
        refund_id = known.provider_reference
        if refund_id is None or not refund_id.isdecimal():
            return refunds.NOT_IDENTIFIED
        currency = NAIRA if known.amount is None else known.amount.currency
        return await self._pay_in.get(
            f"{API}/refunds/{refund_id}", lambda data: refunds.state(data, refund_id, currency)
        )

    async def banks(self) -> Answer[list[port.Bank]]:
        return await self._pay_out.get(f"{API}/banks/NG", reading.banks)

    async def resolve(self, bank_code: str, account_number: str) -> Answer[port.ResolvedAccount]:
        return await self._pay_out.post(
            f"{API}/accounts/resolve",
            {"account_number": account_number, "account_bank": bank_code},
            lambda data: answers.read_account(data, account_number),
            answers.decide_lookup,
        )

    async def balance(self, currency: str) -> Answer[Money]:
        return await self._pay_out.get(
            f"{API}/balances/{currency}", lambda data: answers.balance(data, currency)
        )

    def transfer_reference(self, trx_id: str) -> str:
        """Returns the transfer's reference. In the sandbox, its suffix determines the outcome."""
        has_suffix = self._is_sandbox and self._suffix
        return f"{trx_id}{SUFFIX}{self._suffix}" if has_suffix else trx_id

    def _trx_id(self, reference: str) -> str:
        """Extracts our id from a reference, without the current or older test suffix."""
        return reference.partition(SUFFIX)[0] if self._is_sandbox else reference

    async def send(self, order: port.TransferOrder) -> Answer[port.Sent]:
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
        return await self._pay_out.post(
            f"{API}/transfers",
            body,
            lambda data: answers.read_transfer(data, order),
            answers.decide_transfer,
        )

    async def transfer_state(self, reference: str) -> Answer[port.TransferState]:
        return await self._pay_out.get(
            f"{API}/transfers",
            lambda data: answers.found_transfer(data, reference),
            query={"reference": reference},
        )

    def read_webhook(self, headers: port.Headers, raw: bytes) -> port.Webhook:
        """Verifies the header, which identifies the sender. The body has no signature."""
        if not reading.is_shared_secret(headers, b"verif-hash", self._secret_hash):
            return port.Forged()
        return reading.webhook(raw, self._event)

    def _event(self, document: Any) -> port.WebhookEvent:
        """Parses a webhook event.

        Successes and failures have the same type but differ in `data.status`.
        """
        event, data = reading.text(document, "event"), reading.field(document, "data")
        claim, status = reading.read_claim(data), reading.optional_text(data, "status")
        if event == "charge.completed":
            kind, reference = subject_of(data)
            charge = answers.CHARGE_STATUSES.get(status)
            account_reference = account_replies.named_account(data, "tx_ref")
            return port.WebhookEvent(
                kind, reference, claim, charge, account_reference=account_reference
            )
        if event == "transfer.completed":
            reference = self._trx_id(reading.text(data, "reference"))
            transfer = answers.TRANSFER_STATUSES.get(status)
            if transfer is port.TransferStatus.PENDING:
                transfer = None
            return port.WebhookEvent(port.WebhookSubject.TRANSFER, reference, claim, transfer)
        raise Malformed("the event is not in the contract")


def _charge(order: port.ChargeOrder) -> dict[str, Any]:
    return {
        "tx_ref": order.reference,
        "amount": order.amount.amount,
        "currency": order.amount.currency,
    }
