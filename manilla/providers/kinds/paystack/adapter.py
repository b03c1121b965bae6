"""The calls to Paystack. All amounts are whole kobo."""

from datetime import UTC, datetime, timedelta
from typing import Any

from manilla.kit.money import Money
from manilla.providers import wire
from manilla.providers.kind import AdapterContext
from manilla.providers.kinds.paystack import answers, statement, webhooks
from manilla.providers.kinds.paystack.recipients import Recipients
from manilla.providers.kinds.paystack.refunds import Refunds
from manilla.providers.port import (
    OUR_REFERENCE,
    Answer,
    Bank,
    Channel,
    ChargeOrder,
    ChargeState,
    Done,
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
    VirtualAccount,
    Webhook,
)
from manilla.providers.wire import Reply

CHANNELS = {
    Channel.CARD: "card",
    Channel.BANK_TRANSFER: "bank_transfer",
    Channel.USSD: "ussd",
}
ACCOUNT_VALID_FOR = timedelta(minutes=30)
BANKS_PER_PAGE = 100
BANK_PAGES_MAX = 20
NARRATION_LENGTH_MAX = 100
NAIRA_ONLY = Refused(
    RefusalCode.PAYMENT_DECLINED, "Paystack opens one-time accounts only for naira."
)


class Paystack:
    def __init__(self, context: AdapterContext) -> None:
        current = context.credentials
        secret_key = current.value("secret_key")
        self.provider = current.provider
        self._wire = context.wire({"Authorization": f"Bearer {secret_key}"})
        self._pay_in = context.pay_in
        self._pay_out = context.pay_out
        self._secret_key = secret_key.encode()
        self._recipients = Recipients(self._wire, self._pay_out)
        self._refunds = Refunds(self._wire, self._pay_in)

    async def create_checkout(self, order: ChargeOrder) -> Answer[HostedCheckout]:
        def read(reply: Reply) -> Answer[HostedCheckout]:
            return wire.charge_answer(reply, lambda data: answers.checkout(data, order.reference))

        body = {
            **_charge(order),
            "currency": order.amount.currency,
            "callback_url": order.redirect_url,
        }
        if order.channel is not None:
            body["channels"] = [CHANNELS[order.channel]]
        return await self._wire.call(
            self._pay_in, "POST", "/transaction/initialize", read, body=body
        )

    async def create_virtual_account(
        self, order: ChargeOrder, bvn: str | None
    ) -> Answer[VirtualAccount]:
        del bvn  # the account belongs to Paystack and is used once
        if order.amount.currency != "NGN":
            return NAIRA_ONLY  # the request has no currency

        def read(reply: Reply) -> Answer[VirtualAccount]:
            return wire.charge_answer(reply, lambda data: answers.virtual_account(data, order))

        expires_at = answers.utc_text(datetime.now(UTC) + ACCOUNT_VALID_FOR)
        body = {**_charge(order), "bank_transfer": {"account_expires_at": expires_at}}
        return await self._wire.call(self._pay_in, "POST", "/charge", read, body=body)

    async def charge_state(self, reference: str) -> Answer[ChargeState]:
        def read(reply: Reply) -> Answer[ChargeState]:
            if answers.says_charge_is_unknown(reply):
                return Done(ChargeState(ReportedChargeStatus.NOT_FOUND))
            return wire.done(reply, lambda data: answers.charge_state(data, reference))

        path = f"/transaction/verify/{reference}"
        return await self._wire.call(self._pay_in, "GET", path, read)

    async def refund(self, order: RefundOrder) -> Answer[RefundState]:
        return await self._refunds.send(order)

    async def refund_state(
        self, reference: str, known: KnownAs = OUR_REFERENCE
    ) -> Answer[RefundState]:
        return await self._refunds.state(reference, known)

    async def banks(self) -> Answer[list[Bank]]:
        found: dict[str, Bank] = {}
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

    async def _bank_page(self, page: int) -> Answer[tuple[list[Bank], bool]]:
        def read(data: Any) -> tuple[list[Bank], bool]:
            return answers.banks(data), len(data) < BANKS_PER_PAGE

        query = {"country": "nigeria", "currency": "NGN", "perPage": str(BANKS_PER_PAGE)}
        return await self._wire.call(
            self._pay_out,
            "GET",
            "/bank",
            lambda reply: wire.done(reply, read),
            query={**query, "page": str(page)},
        )

    async def resolve(self, bank_code: str, account_number: str) -> Answer[ResolvedAccount]:
        def read(reply: Reply) -> Answer[ResolvedAccount]:
            return answers.transfer_answer(
                reply, lambda data: answers.resolved(data, account_number)
            )

        query = {"account_number": account_number, "bank_code": bank_code}
        return await self._wire.call(self._pay_out, "GET", "/bank/resolve", read, query=query)

    async def balance(self, currency: str) -> Answer[Money]:
        return await self._wire.call(
            self._pay_out,
            "GET",
            "/balance",
            lambda reply: wire.done(reply, lambda data: answers.balance(data, currency)),
        )

    async def statement(
        self, since: datetime, until: datetime, currency: str, start: str | None = None
    ) -> Answer[StatementPage]:
        return await statement.page(self._wire, self._pay_out, since, until, currency, start)

    def transfer_reference(self, trx_id: str) -> str:
        """Paystack allows only lower-case letters. Our ids have none, so this can be undone."""
        return trx_id.lower()

    async def send(self, order: TransferOrder) -> Answer[Sent]:
        was_known = self._recipients.is_known(order)
        answer = await self._send(order)
        if answers.is_recipient_invalid(answer):
            # Nothing was sent: Paystack rejected the transfer, because the recipient was deleted.
            self._recipients.forget(order)
            if was_known:
                return await self._send(order)
        return answer

    async def _send(self, order: TransferOrder) -> Answer[Sent]:
        recipient = await self._recipients.code_of(order)
        if not isinstance(recipient, Done):
            return recipient

        def read(reply: Reply) -> Answer[Sent]:
            return answers.transfer_answer(reply, lambda data: answers.sent(data, order))

        body = {
            "source": "balance",
            "amount": order.amount.minor,
            "currency": order.amount.currency,
            "recipient": recipient.value,
            "reference": order.reference,
            "reason": order.narration[:NARRATION_LENGTH_MAX],
        }
        return await self._wire.call(self._pay_out, "POST", "/transfer", read, body=body)

    async def transfer_state(self, reference: str) -> Answer[TransferState]:
        def read(reply: Reply) -> Answer[TransferState]:
            if answers.says_transfer_is_unknown(reply):
                return Done(TransferState(TransferStatus.NOT_FOUND))
            return wire.done(reply, lambda data: answers.transfer_state(data, reference))

        path = f"/transfer/verify/{reference}"
        return await self._wire.call(self._pay_out, "GET", path, read)

    def read_webhook(self, headers: Headers, raw: bytes) -> Webhook:
        return webhooks.read(headers, raw, self._secret_key)


def _charge(order: ChargeOrder) -> dict[str, Any]:
    return {
        "email": order.customer_email,
        "amount": order.amount.minor,
        "reference": order.reference,
    }
