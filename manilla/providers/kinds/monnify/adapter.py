"""Calls Monnify's API. Every call needs an access token, which is requested before it."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from manilla.kit.money import Money
from manilla.providers import reading, wire
from manilla.providers.health import Rail
from manilla.providers.kind import AdapterContext
from manilla.providers.kinds.monnify import answers, statement, webhooks
from manilla.providers.kinds.monnify.tokens import Tokens
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
    ReportedChargeStatus,
    ReportedRefundStatus,
    ResolvedAccount,
    Sent,
    StatementPage,
    TransferOrder,
    TransferState,
    TransferStatus,
    Unknown,
    VirtualAccount,
    Webhook,
)
from manilla.providers.wire import Reply

Value = TypeVar("Value")

COLLECTIONS = "/api/v1/merchant"
DISBURSEMENTS = "/api/v2/disbursements"
REFUNDS = "/api/v1/refunds"
CHANNELS = {
    Channel.CARD: "CARD",
    Channel.BANK_TRANSFER: "ACCOUNT_TRANSFER",
    Channel.USSD: "USSD",
}
DESCRIPTION_LENGTH_MIN = 3
NARRATION_LENGTH_MAX = 100
REASON_LENGTH_MAX = 64
CUSTOMER_NOTE = "Refund"
NAIRA_ONLY = Unknown("Monnify's wallet is in naira", can_pass=False)


class Monnify:
    def __init__(self, context: AdapterContext) -> None:
        current = context.credentials
        secret_key = current.value("secret_key")
        self.provider = current.provider
        self._wire = context.wire({}, answers.read_envelope)
        self._tokens = Tokens(self._wire, current.value("api_key"), secret_key)
        self._pay_in = context.pay_in
        self._pay_out = context.pay_out
        self._secret_key = secret_key.encode()
        self._contract_code = current.value("contract_code")
        self._source_account_number = current.value("source_account_number")
        self._is_sandbox = current.is_sandbox

    async def create_checkout(self, order: ChargeOrder) -> Answer[HostedCheckout]:
        return await self._initialize(order, _methods(order.channel), answers.checkout)

    async def create_virtual_account(
        self, order: ChargeOrder, bvn: str | None
    ) -> Answer[VirtualAccount]:
        del bvn  # the account is Monnify's own and used once
        methods = _methods(Channel.BANK_TRANSFER)
        opened = await self._initialize(order, methods, answers.transaction_reference)
        if not isinstance(opened, Done):
            return opened
        transaction = opened.value

        def read(reply: Reply) -> Answer[VirtualAccount]:
            return wire.charge_answer(
                reply, lambda data: answers.virtual_account(data, order.reference, transaction)
            )

        path = f"{COLLECTIONS}/bank-transfer/init-payment"
        body = {"transactionReference": transaction}
        return await self._call(self._pay_in, "POST", path, read, body=body)

    async def _initialize(
        self, order: ChargeOrder, more: Mapping[str, Any], read_data: Callable[[Any, str], Value]
    ) -> Answer[Value]:
        def read(reply: Reply) -> Answer[Value]:
            if wire.is_refusal(reply) and answers.is_about_reference(reply):
                return answers.unknown_reference(reply)
            return wire.charge_answer(reply, lambda data: read_data(data, order.reference))

        body = {
            "amount": order.amount.amount,
            "customerName": order.customer_name,
            "customerEmail": order.customer_email,
            "paymentReference": order.reference,
            "paymentDescription": _description(order),
            "currencyCode": order.amount.currency,
            "contractCode": self._contract_code,
            "redirectUrl": order.redirect_url,
            **more,
        }
        path = f"{COLLECTIONS}/transactions/init-transaction"
        return await self._call(self._pay_in, "POST", path, read, body=body)

    async def charge_state(self, reference: str) -> Answer[ChargeState]:
        def read(reply: Reply) -> Answer[ChargeState]:
            if answers.is_not_found(reply, (400, 404)):
                return Done(ChargeState(ReportedChargeStatus.NOT_FOUND))
            return wire.done(reply, lambda data: answers.charge_state(data, reference))

        path = "/api/v2/merchant/transactions/query"
        query = {"paymentReference": reference}
        return await self._call(self._pay_in, "GET", path, read, query=query)

    async def refund(self, order: RefundOrder) -> Answer[RefundState]:
        """Monnify refunds a transaction by its own reference, which is looked up first."""
        charge = await self.charge_state(order.charge_reference)
        if not isinstance(charge, Done):
            return charge
        if charge.value.provider_reference is None:
            return Unknown("the provider does not know the charge")

        def read(reply: Reply) -> Answer[RefundState]:
            if wire.is_refusal(reply) and answers.is_about_reference(reply):
                return answers.unknown_reference(reply)
            return wire.refund_answer(
                reply, lambda data: answers.accepted_refund(data, order.reference)
            )

        body = {
            "transactionReference": charge.value.provider_reference,
            "refundAmount": order.amount.amount,
            "refundReference": order.reference,
            "refundReason": order.reason[:REASON_LENGTH_MAX] or CUSTOMER_NOTE,
            "customerNote": CUSTOMER_NOTE,
        }
        path = f"{REFUNDS}/initiate-refund"
        return await self._call(self._pay_in, "POST", path, read, body=body)

    async def refund_state(
        self, reference: str, known: KnownAs = OUR_REFERENCE
    ) -> Answer[RefundState]:
        def read(reply: Reply) -> Answer[RefundState]:
            if answers.is_not_found(reply):
                return Done(RefundState(ReportedRefundStatus.NOT_FOUND))
            return wire.done(reply, lambda data: answers.refund_state(data, reference))

        path = f"{REFUNDS}/{quote(reference, safe='')}"
        return await self._call(self._pay_in, "GET", path, read)

    async def banks(self) -> Answer[list[Bank]]:
        return await self._call(
            self._pay_out, "GET", "/api/v1/banks", lambda reply: wire.done(reply, reading.banks)
        )

    async def resolve(self, bank_code: str, account_number: str) -> Answer[ResolvedAccount]:
        def read(reply: Reply) -> Answer[ResolvedAccount]:
            return answers.lookup_refusal(reply) or wire.done(
                reply, lambda data: answers.resolved(data, account_number)
            )

        path = "/api/v1/disbursements/account/validate"
        query = {"accountNumber": account_number, "bankCode": bank_code}
        return await self._call(self._pay_out, "GET", path, read, query=query)

    async def balance(self, currency: str) -> Answer[Money]:
        if currency != answers.CURRENCY:
            return NAIRA_ONLY

        def read(data: Any) -> Money:
            return reading.money(data, "availableBalance", currency)

        return await self._call(
            self._pay_out,
            "GET",
            f"{DISBURSEMENTS}/wallet-balance",
            lambda reply: wire.done(reply, read),
            query={"accountNumber": self._source_account_number},
        )

    async def statement(
        self, since: datetime, until: datetime, currency: str, start: str | None = None
    ) -> Answer[StatementPage]:
        if currency != answers.CURRENCY:
            return NAIRA_ONLY

        def read(reply: Reply) -> Answer[StatementPage]:
            return wire.done(reply, lambda data: statement.page(data, start))

        query = statement.query(self._source_account_number, since, until, start)
        return await self._call(self._pay_out, "GET", statement.PATH, read, query=query)

    def transfer_reference(self, trx_id: str) -> str:
        return trx_id

    async def send(self, order: TransferOrder) -> Answer[Sent]:
        def read(reply: Reply) -> Answer[Sent]:
            if wire.is_refusal(reply) and answers.is_about_reference(reply):
                return answers.unknown_reference(reply)
            return wire.transfer_answer(reply, lambda data: answers.sent(data, order))

        body = {
            "amount": order.amount.amount,
            "reference": order.reference,
            "narration": order.narration[:NARRATION_LENGTH_MAX] or order.reference,
            "destinationBankCode": order.bank_code,
            "destinationAccountNumber": order.account_number,
            "destinationAccountName": order.account_name,  # must equal the resolved name
            "currency": order.amount.currency,
            "sourceAccountNumber": self._source_account_number,
            "async": True,
        }
        return await self._call(self._pay_out, "POST", f"{DISBURSEMENTS}/single", read, body=body)

    async def transfer_state(self, reference: str) -> Answer[TransferState]:
        def read(reply: Reply) -> Answer[TransferState]:
            if answers.is_not_found(reply):
                return Done(TransferState(TransferStatus.NOT_FOUND))
            return wire.done(reply, lambda data: answers.transfer_state(data, reference))

        path = f"{DISBURSEMENTS}/single/summary"
        query = {"reference": reference}
        return await self._call(self._pay_out, "GET", path, read, query=query)

    def read_webhook(self, headers: Headers, raw: bytes) -> Webhook:
        return webhooks.read(headers, raw, self._secret_key, is_sandbox=self._is_sandbox)

    async def _call(
        self,
        rail: Rail,
        method: str,
        path: str,
        read: Callable[[Reply], Answer[Value]],
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Answer[Value]:
        """Sends the request once, with a token that lasts. Without a token, nothing is sent.

        If Monnify rejects the token, the next call requests a new one.
        """
        token = await self._tokens.current(rail)
        if not isinstance(token, Done):
            return token
        headers = {"Authorization": f"Bearer {token.value}"}
        answer = await self._wire.call(
            rail, method, path, read, body=body, query=query, headers=headers
        )
        if isinstance(answer, Unknown) and not answer.can_pass:
            self._tokens.discard(token.value)
            return msgspec.structs.replace(answer, can_pass=True)
        return answer


def _methods(channel: Channel | None) -> dict[str, list[str]]:
    return {} if channel is None else {"paymentMethods": [CHANNELS[channel]]}


def _description(order: ChargeOrder) -> str:
    is_long_enough = len(order.description) >= DESCRIPTION_LENGTH_MIN
    return order.description if is_long_enough else f"Payment {order.description}".strip()
