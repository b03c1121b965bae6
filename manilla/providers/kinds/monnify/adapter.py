"""Calls Monnify's API. Every call needs an access token, which is requested in advance."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote

from manilla.kit.money import Money
from manilla.providers import port, reading, replies
from manilla.providers.kind import AdapterContext
from manilla.providers.kinds.monnify import answers, errors, statement, ways, webhooks
from manilla.providers.kinds.monnify.accounts import MonnifyAccounts
from manilla.providers.kinds.monnify.tokens import Tokens, TokenWire
from manilla.providers.kinds.monnify.ways import MonnifyCards, MonnifyMandates
from manilla.providers.port import Answer, Done, RefusalCode, Refused, Unknown

Value = TypeVar("Value")

COLLECTIONS = "/api/v1/merchant"
DISBURSEMENTS = "/api/v2/disbursements"
REFUNDS = "/api/v1/refunds"
CHANNELS = {
    port.Channel.CARD: "CARD",
    port.Channel.BANK_TRANSFER: "ACCOUNT_TRANSFER",
    port.Channel.USSD: "USSD",
}
TEXT_LENGTH_MIN = 3  # of a description and of a narration
NARRATION_LENGTH_MAX = 100
REASON_LENGTH_MAX = 64
CUSTOMER_NOTE = "Refund"
NAIRA_ONLY = Unknown("Monnify's wallet is in naira", can_pass=False)

# The beginning of Monnify's reference of a transfer into a customer's account.
OWN_REFERENCE = "MNFY|"


class Monnify:
    disputes: port.DisputeDesk | None = None
    accounts: port.AccountDesk | None = None
    cards: port.SavedCards | None
    mandates: port.Mandates | None

    def __init__(self, context: AdapterContext) -> None:
        current = context.credentials
        secret_key = current.value("secret_key")
        self.provider = current.provider
        api = context.api(answers.read_envelope)
        api_key = current.value("api_key")
        self._tokens = Tokens(api, api_key, secret_key)
        self._pay_in = TokenWire(context.pay_in, api, self._tokens)
        self._pay_out = TokenWire(context.pay_out, api, self._tokens)
        self._secret_key = secret_key.encode()
        self._contract_code = current.value("contract_code")
        self.cards = MonnifyCards(self._pay_in, api_key, self._contract_code)
        self.mandates = MonnifyMandates(self._pay_in, self._contract_code)
        self._source_account_number = current.value("source_account_number")
        self._is_sandbox = current.is_sandbox
        self.accounts = MonnifyAccounts(self._pay_in, self._contract_code)

    async def create_checkout(self, order: port.ChargeOrder) -> Answer[port.HostedCheckout]:
        return await self._initialize(order, _methods(order.channel), answers.checkout)

    async def create_virtual_account(
        self, order: port.ChargeOrder, bvn: str | None
    ) -> Answer[port.VirtualAccount]:
        del bvn  # not needed, because the one-time account belongs to Monnify
        methods = _methods(port.Channel.BANK_TRANSFER)
        opened = await self._initialize(order, methods, answers.transaction_reference)
        if not isinstance(opened, Done):
            return opened
        transaction = opened.value
        return await self._pay_in.post(
            f"{COLLECTIONS}/bank-transfer/init-payment",
            {"transactionReference": transaction},
            lambda data: answers.virtual_account(data, order.reference, transaction),
            replies.decide_payment,
        )

    async def _initialize(
        self, order: port.ChargeOrder, more: Mapping[str, Any], read: Callable[[Any, str], Value]
    ) -> Answer[Value]:
        if answers.is_too_little(order.amount):
            return Refused(RefusalCode.PAYMENT_DECLINED, answers.TOO_LITTLE)
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
        return await self._pay_in.post(
            f"{COLLECTIONS}/transactions/init-transaction",
            body,
            lambda data: read(data, order.reference),
            replies.decide_payment,
        )

    async def charge_state(self, reference: str) -> Answer[port.ChargeState]:
        return await self._pay_in.get(
            "/api/v2/merchant/transactions/query",
            lambda data: answers.charge_state(data, reference, ways.of_charge(data)),
            errors.find_charge,
            query={"paymentReference": reference},
        )

    async def refund(self, order: port.RefundOrder) -> Answer[port.RefundState]:
        """Refunds a transaction by Monnify's own reference, which is looked up first."""
        transaction = order.charge_reference
        if not transaction.startswith(OWN_REFERENCE):
            charge = await self.charge_state(order.charge_reference)
            if not isinstance(charge, Done):
                return charge
            if charge.value.provider_reference is None:
                return Unknown("the provider does not know the charge")
            transaction = charge.value.provider_reference
        body = {
            "transactionReference": transaction,
            "refundAmount": order.amount.amount,
            "refundReference": order.reference,
            "refundReason": order.reason[:REASON_LENGTH_MAX] or CUSTOMER_NOTE,
            "customerNote": CUSTOMER_NOTE,
        }
        return await self._pay_in.post(
            f"{REFUNDS}/initiate-refund",
            body,
            lambda data: answers.accepted_refund(data, order.reference),
            errors.decide_refund,
        )

    async def refund_state(
        self, reference: str, known: port.KnownAs = port.OUR_REFERENCE
    ) -> Answer[port.RefundState]:
        return await self._pay_in.get(
            f"{REFUNDS}/{quote(reference, safe='')}",
            lambda data: answers.refund_state(data, reference),
            errors.find_refund,
        )

    async def banks(self) -> Answer[list[port.Bank]]:
        return await self._pay_out.get("/api/v1/banks", reading.banks)

    async def resolve(self, bank_code: str, account_number: str) -> Answer[port.ResolvedAccount]:
        return await self._pay_out.get(
            "/api/v1/disbursements/account/validate",
            lambda data: answers.read_account(data, account_number),
            errors.decide_lookup,
            query={"accountNumber": account_number, "bankCode": bank_code},
        )

    async def balance(self, currency: str) -> Answer[Money]:
        if currency != answers.CURRENCY:
            return NAIRA_ONLY
        return await self._pay_out.get(
            f"{DISBURSEMENTS}/wallet-balance",
            lambda data: reading.money(data, "availableBalance", currency),
            query={"accountNumber": self._source_account_number},
        )

    async def statement(
        self, since: datetime, until: datetime, currency: str, start: str | None = None
    ) -> Answer[port.StatementPage]:
        if currency != answers.CURRENCY:
            return NAIRA_ONLY
        query = statement.query(self._source_account_number, since, until, start)
        return await self._pay_out.get(
            statement.PATH, lambda data: statement.page(data, start), query=query
        )

    def transfer_reference(self, trx_id: str) -> str:
        return trx_id

    async def send(self, order: port.TransferOrder) -> Answer[port.Sent]:
        if answers.is_too_little(order.amount):
            return Refused(RefusalCode.PAYOUT_FAILED, answers.TOO_LITTLE)
        body = {
            "amount": order.amount.amount,
            "reference": order.reference,
            "narration": _narration(order),
            "destinationBankCode": order.bank_code,
            "destinationAccountNumber": order.account_number,
            "destinationAccountName": order.account_name,  # must equal the resolved name
            "currency": order.amount.currency,
            "sourceAccountNumber": self._source_account_number,
            "async": True,
        }
        return await self._pay_out.post(
            f"{DISBURSEMENTS}/single",
            body,
            lambda data: answers.read_transfer(data, order),
            errors.decide_transfer,
        )

    async def transfer_state(self, reference: str) -> Answer[port.TransferState]:
        return await self._pay_out.get(
            f"{DISBURSEMENTS}/single/summary",
            lambda data: answers.transfer_state(data, reference),
            errors.find_transfer,
            query={"reference": reference},
        )

    def read_webhook(self, headers: port.Headers, raw: bytes) -> port.Webhook:
        return webhooks.read(headers, raw, self._secret_key, is_sandbox=self._is_sandbox)


def _methods(channel: port.Channel | None) -> dict[str, list[str]]:
    return {} if channel is None else {"paymentMethods": [CHANNELS[channel]]}


def _description(order: port.ChargeOrder) -> str:
    is_long_enough = len(order.description) >= TEXT_LENGTH_MIN
    return order.description if is_long_enough else f"Payment {order.description}".strip()


def _narration(order: port.TransferOrder) -> str:
    is_long_enough = len(order.narration) >= TEXT_LENGTH_MIN
    narration = order.narration if is_long_enough else f"{order.narration} {order.reference}"
    return narration.strip()[:NARRATION_LENGTH_MAX]
