"""Calls Paystack's API. All amounts are in kobo."""

from datetime import UTC, datetime, timedelta
from typing import Any

from manilla.kit.money import Money
from manilla.providers import port, replies
from manilla.providers.kind import AdapterContext, BaseAdapter
from manilla.providers.kinds.paystack import answers, statement, webhooks
from manilla.providers.kinds.paystack.accounts import PaystackAccounts
from manilla.providers.kinds.paystack.cards import PaystackCards
from manilla.providers.kinds.paystack.disputes import PaystackDisputes
from manilla.providers.kinds.paystack.recipients import Recipients
from manilla.providers.kinds.paystack.refunds import Refunds
from manilla.providers.port import Answer, Done, Refused

CHANNELS = {
    port.Channel.CARD: "card",
    port.Channel.BANK_TRANSFER: "bank_transfer",
    port.Channel.USSD: "ussd",
}
ACCOUNT_VALID_FOR = timedelta(minutes=30)
BANKS_PER_PAGE = 100
BANK_PAGES_MAX = 20
NARRATION_LENGTH_MAX = 100
TEST_BANK = "test-bank"
NAIRA_ONLY = Refused(
    port.RefusalCode.PAYMENT_DECLINED, "Paystack opens one-time accounts only for naira."
)


class Paystack(BaseAdapter):
    def __init__(self, context: AdapterContext) -> None:
        secret_key = context.credentials.value("secret_key")
        super().__init__(context, {"Authorization": f"Bearer {secret_key}"})
        self._secret_key = secret_key.encode()
        self._recipients = Recipients(self._pay_out)
        self._refunds = Refunds(self._pay_in, self.charge_state)
        self.disputes = PaystackDisputes(self._pay_in)
        is_test = context.credentials.is_sandbox
        bank = TEST_BANK if is_test else context.credentials.value("account_bank")
        self.accounts = PaystackAccounts(self._pay_in, bank)
        self.cards = PaystackCards(self._pay_in)

    async def create_checkout(self, order: port.ChargeOrder) -> Answer[port.HostedCheckout]:
        body = {
            **_charge(order),
            "currency": order.amount.currency,
            "callback_url": order.redirect_url,
        }
        if order.channel is not None:
            body["channels"] = [CHANNELS[order.channel]]
        return await self._pay_in.post(
            "/transaction/initialize",
            body,
            lambda data: answers.checkout(data, order.reference),
            replies.decide_payment,
        )

    async def create_virtual_account(
        self, order: port.ChargeOrder, bvn: str | None
    ) -> Answer[port.VirtualAccount]:
        del bvn  # not needed, because the one-time account belongs to Paystack
        if order.amount.currency != "NGN":
            return NAIRA_ONLY  # Paystack's API request has no field for a currency
        expires_at = answers.utc_text(datetime.now(UTC) + ACCOUNT_VALID_FOR)
        body = {**_charge(order), "bank_transfer": {"account_expires_at": expires_at}}
        return await self._pay_in.post(
            "/charge",
            body,
            lambda data: answers.virtual_account(data, order),
            replies.decide_payment,
        )

    async def charge_state(self, reference: str) -> Answer[port.ChargeState]:
        return await self._pay_in.get(
            f"/transaction/verify/{reference}",
            lambda data: answers.charge_state(data, reference),
            answers.find_charge,
        )

    async def refund(self, order: port.RefundOrder) -> Answer[port.RefundState]:
        return await self._refunds.send(order)

    async def refund_state(
        self, reference: str, known: port.KnownAs = port.OUR_REFERENCE
    ) -> Answer[port.RefundState]:
        return await self._refunds.state(reference, known)

    async def banks(self) -> Answer[list[port.Bank]]:
        found: dict[str, port.Bank] = {}
        for page in range(1, BANK_PAGES_MAX + 1):
            answer = await self._bank_page(page)
            if not isinstance(answer, Done):
                return answer
            listed, is_last = answer.value
            new = {bank.code: bank for bank in listed if bank.code not in found}
            found |= new
            if is_last or not new:
                break
        return Done(list(found.values()))

    async def _bank_page(self, page: int) -> Answer[tuple[list[port.Bank], bool]]:
        def read(data: Any) -> tuple[list[port.Bank], bool]:
            return answers.banks(data), len(data) < BANKS_PER_PAGE

        query = {"country": "nigeria", "currency": "NGN", "perPage": str(BANKS_PER_PAGE)}
        return await self._pay_out.get("/bank", read, query={**query, "page": str(page)})

    async def resolve(self, bank_code: str, account_number: str) -> Answer[port.ResolvedAccount]:
        return await self._pay_out.get(
            "/bank/resolve",
            lambda data: answers.read_account(data, account_number),
            answers.decide_lookup,
            query={"account_number": account_number, "bank_code": bank_code},
        )

    async def balance(self, currency: str) -> Answer[Money]:
        return await self._pay_out.get("/balance", lambda data: answers.balance(data, currency))

    async def statement(
        self, since: datetime, until: datetime, currency: str, start: str | None = None
    ) -> Answer[port.StatementPage]:
        return await statement.page(self._pay_out, since, until, currency, start)

    def transfer_reference(self, trx_id: str) -> str:
        """Returns our id in lower case, as Paystack requires. `read_webhook` converts it back."""
        return trx_id.lower()

    async def send(self, order: port.TransferOrder) -> Answer[port.Sent]:
        was_known = self._recipients.is_known(order)
        answer = await self._send(order)
        if answers.is_recipient_invalid(answer):
            # Paystack rejected the transfer and sent no money, because the recipient was deleted.
            self._recipients.forget(order)
            if was_known:
                return await self._send(order)
        return answer

    async def _send(self, order: port.TransferOrder) -> Answer[port.Sent]:
        recipient = await self._recipients.code_of(order)
        if not isinstance(recipient, Done):
            return recipient
        body = {
            "source": "balance",
            "amount": order.amount.minor,
            "currency": order.amount.currency,
            "recipient": recipient.value,
            "reference": order.reference,
            "reason": order.narration[:NARRATION_LENGTH_MAX],
        }
        return await self._pay_out.post(
            "/transfer",
            body,
            lambda data: answers.read_transfer(data, order),
            answers.decide_transfer,
        )

    async def transfer_state(self, reference: str) -> Answer[port.TransferState]:
        return await self._pay_out.get(
            f"/transfer/verify/{reference}",
            lambda data: answers.transfer_state(data, reference),
            answers.find_transfer,
        )

    def read_webhook(self, headers: port.Headers, raw: bytes) -> port.Webhook:
        return webhooks.read(headers, raw, self._secret_key)


def _charge(order: port.ChargeOrder) -> dict[str, Any]:
    return {
        "email": order.customer_email,
        "amount": order.amount.minor,
        "reference": order.reference,
    }
