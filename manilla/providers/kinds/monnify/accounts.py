"""Monnify's reserved accounts, which have our reference. Amounts are in naira.

Transfers into them have references of Monnify's, in both reference fields. The product names the
account.
"""

from datetime import datetime
from typing import Any
from urllib.parse import quote

from manilla.providers import account_replies, port, reading, replies
from manilla.providers.kinds.monnify import answers, errors
from manilla.providers.port import (
    AccountState,
    AccountTransfer,
    Answer,
    KnownAccount,
    RefusalCode,
    Refused,
    ReportedAccountStatus,
    ReportedChargeStatus,
)
from manilla.providers.reading import Malformed
from manilla.providers.wire import Wire

RESERVED = "/api/{}/bank-transfer/reserved-accounts"
PRODUCT = "RESERVED_ACCOUNT"
BANK = "035"  # one number per account: a second one is at another provider
PAGE_SIZE = 100
STATUSES = {
    "ACTIVE": ReportedAccountStatus.ACTIVE,
    **dict.fromkeys(("INACTIVE", "DEALLOCATED", "DELETED"), ReportedAccountStatus.CLOSED),
}
CLOSED = AccountState(status=ReportedAccountStatus.CLOSED)
NO_IDENTITY = Refused(
    RefusalCode.ACCOUNT_DETAILS_REJECTED,
    "The provider needs the customer's BVN or NIN. Update the customer.",
)
_find = replies.found_or(
    account_replies.NOT_FOUND, lambda reply: errors.is_missing(reply, (400, 404))
)


class MonnifyAccounts:
    needs: frozenset[str] = frozenset()
    uses = frozenset(("bvn", "nin"))
    can_repeat = True  # Monnify documents that it rejects a reference that was used before

    def __init__(self, pay_in: Wire, contract_code: str) -> None:
        self._pay_in = pay_in
        self._contract_code = contract_code

    async def create(self, order: port.AccountOrder) -> Answer[AccountState]:
        identity = {"bvn": order.bvn, "nin": order.nin}
        given = {name: value for name, value in identity.items() if value is not None}
        if not given:
            return NO_IDENTITY
        body = {
            "accountReference": order.reference,
            "accountName": order.customer_name,
            "currencyCode": order.currency,
            "contractCode": self._contract_code,
            "customerEmail": order.customer_email,
            "customerName": order.customer_name,
            **given,
            "getAllAvailableBanks": False,
            "preferredBanks": [BANK],
        }
        return await self._pay_in.post(
            RESERVED.format("v2"),
            body,
            lambda data: _account(data, order.reference),
            account_replies.decide,
        )

    async def state(self, known: KnownAccount) -> Answer[AccountState]:
        return await self._pay_in.get(
            f"{RESERVED.format('v2')}/{known.reference}",
            lambda data: _account(data, known.reference),
            _find,
        )

    async def close(self, known: KnownAccount) -> Answer[AccountState]:
        path = f"{RESERVED.format('v1')}/reference/{known.reference}"
        return await self._pay_in.call(
            "DELETE", path, lambda reply: _find(reply, lambda _data: CLOSED)
        )

    async def transfer(self, reference: str) -> Answer[AccountTransfer]:
        return await self._pay_in.get(
            f"/api/v2/transactions/{quote(reference, safe='')}",
            lambda data: _transfer(data, reference),
            replies.found_or(
                account_replies.unknown_transfer(reference),
                lambda reply: errors.is_missing(reply, (400, 404)),
            ),
        )

    async def transfers(
        self, known: KnownAccount, since: datetime, start: str | None = None
    ) -> Answer[port.TransferPage]:
        del since  # the call has no parameter for a period, and lists the newest transfers first
        number = int(start or 0)

        def read(data: Any) -> port.TransferPage:
            listed = reading.items(reading.field(data, "content"))
            is_last = data.get("last") is not False or not listed
            paid = [_transfer(each, reading.text(each, "transactionReference")) for each in listed]
            return port.TransferPage(paid, None if is_last else str(number + 1))

        query = {"accountReference": known.reference, "page": str(number), "size": str(PAGE_SIZE)}
        return await self._pay_in.get(f"{RESERVED.format('v1')}/transactions", read, query=query)


def is_transfer(data: Any) -> bool:
    product = data.get("product") if isinstance(data, dict) else None
    return isinstance(product, dict) and product.get("type") == PRODUCT


def _account(data: Any, reference: str) -> AccountState:
    reading.same_reference(data, "accountReference", reference)
    listed = reading.items(reading.field(data, "accounts"))
    if len(listed) != 1:
        raise Malformed("there is not exactly one account")
    account = listed[0]
    return AccountState(
        status=reading.one_of(STATUSES, data, "status"),
        bank_name=reading.text(account, "bankName"),
        bank_code=reading.text(account, "bankCode"),
        account_number=account_replies.account_number(account, "accountNumber"),
        account_name=reading.text(account, "accountName"),
        provider_reference=reading.text(data, "reservationReference"),
    )


def _transfer(data: Any, reference: str) -> AccountTransfer:
    if not is_transfer(data):
        raise Malformed("the transaction is no transfer into a reserved account")
    reading.same_reference(data, "transactionReference", reference)
    status = reading.one_of(answers.CHARGE_STATUSES, data, "paymentStatus")
    named = data.get("currency") is not None
    currency = reading.currency(data, "currency") if named else answers.CURRENCY
    is_paid = status is ReportedChargeStatus.PAID
    paid = answers.amount(data, "amountPaid", currency) if is_paid else None
    return AccountTransfer(
        reference=reference,
        status=status,
        paid=paid,
        fee=None if paid is None else answers.fee_of(data, paid),
        payer=_payer(data),
        account_reference=account_replies.our_id(reading.text(data["product"], "reference")),
        account_number=_number(data),
    )


def _payer(data: Any) -> port.Payer:
    """Parses the sender. Monnify names it differently in webhooks and in status queries."""
    listed = data.get("accountPayments") or data.get("paymentSourceInformation")
    sender = listed[0] if isinstance(listed, list) and listed else None
    return port.Payer(
        name=reading.optional_text(sender, "accountName") or None,
        bank=reading.optional_text(sender, "bankCode") or None,
        account_number=reading.optional_text(sender, "accountNumber") or None,
        session_id=reading.optional_text(sender, "sessionId") or None,
    )


def _number(data: Any) -> str | None:
    destination = data.get("destinationAccountInformation")
    return reading.optional_text(destination, "accountNumber") or None
