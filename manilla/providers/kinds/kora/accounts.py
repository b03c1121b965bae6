"""Kora's virtual bank accounts, which have our reference. Amounts are in naira.

Transfers into them have references of Kora's.
"""

from datetime import datetime
from typing import Any
from urllib.parse import quote

from manilla.providers import account_replies, port, reading, replies
from manilla.providers.kinds.kora import answers
from manilla.providers.port import (
    AccountState,
    AccountTransfer,
    Answer,
    Done,
    KnownAccount,
    ReportedAccountStatus,
    ReportedChargeStatus,
)
from manilla.providers.reading import Malformed
from manilla.providers.wire import Wire

API = "/merchant/api/v1"
ACCOUNTS = f"{API}/virtual-bank-account"
SANDBOX_BANK = "000"
DETAILS, ACCOUNT, PAYER = (
    "virtual_bank_account_details",
    "virtual_bank_account",
    "payer_bank_account",
)
STATUSES = {
    "active": ReportedAccountStatus.ACTIVE,
    "pending": ReportedAccountStatus.PENDING,
    **dict.fromkeys(("inactive", "deactivated", "closed"), ReportedAccountStatus.CLOSED),
}
_find = replies.found_or(
    account_replies.NOT_FOUND, answers.says_missing("virtual bank account", "account")
)


class KoraAccounts:
    needs = frozenset(("bvn",))
    uses = frozenset(("bvn", "nin"))
    can_repeat = True  # Kora rejects a reference that it has seen before

    def __init__(self, pay_in: Wire, bank_code: str) -> None:
        self._pay_in = pay_in
        self._bank_code = bank_code

    async def create(self, order: port.AccountOrder) -> Answer[AccountState]:
        identity = {"bvn": order.bvn, "nin": order.nin}
        body = {
            "account_name": order.customer_name,
            "account_reference": order.reference,
            "permanent": True,
            "bank_code": self._bank_code,
            "customer": {"name": order.customer_name, "email": order.customer_email},
            "kyc": {name: value for name, value in identity.items() if value is not None},
        }
        return await self._pay_in.post(
            ACCOUNTS, body, lambda data: _account(data, order.reference), account_replies.decide
        )

    async def state(self, known: KnownAccount) -> Answer[AccountState]:
        return await self._pay_in.get(
            f"{ACCOUNTS}/{known.reference}", lambda data: _account(data, known.reference), _find
        )

    async def close(self, known: KnownAccount) -> Answer[AccountState]:
        del known
        return account_replies.NO_CLOSING

    async def transfer(self, reference: str) -> Answer[AccountTransfer]:
        def read(data: Any) -> AccountTransfer:
            account = reading.field(reading.field(data, DETAILS), ACCOUNT)
            return _transfer(data, reference, reading.text(account, "account_reference"))

        return await self._pay_in.get(
            f"{API}/charges/{quote(reference, safe='')}",
            read,
            replies.found_or(
                account_replies.unknown_transfer(reference),
                answers.says_missing("charge", "transaction"),
            ),
        )

    async def transfers(
        self, known: KnownAccount, since: datetime, start: str | None = None
    ) -> Answer[port.TransferPage]:
        if known.account_number is None:
            return Done(port.TransferPage([], None))
        number = int(start or 1)

        def read(data: Any) -> port.TransferPage:
            listed = reading.items(reading.field(data, "transactions"))
            paid = [
                _transfer(each, reading.text(each, "reference"), known.reference) for each in listed
            ]
            pages = data.get("pagination") if isinstance(data, dict) else None
            count = pages.get("total_pages") if isinstance(pages, dict) else None
            is_last = not listed or not isinstance(count, int) or number >= count
            return port.TransferPage(paid, None if is_last else str(number + 1))

        query = {"account_number": known.account_number, "start_date": f"{since:%Y-%m-%d}"}
        return await self._pay_in.get(
            f"{ACCOUNTS}/transactions", read, query={**query, "page": str(number)}
        )


def is_transfer(data: Any) -> bool:
    return isinstance(data, dict) and isinstance(data.get(DETAILS), dict)


def named_account(data: Any) -> str | None:
    """Returns our id of the account that received a transfer, if its webhook has one."""
    return account_replies.named_account(data[DETAILS].get(ACCOUNT), "account_reference")


def _account(data: Any, reference: str) -> AccountState:
    reading.same_reference(data, "account_reference", reference)
    return AccountState(
        status=reading.one_of(STATUSES, data, "account_status"),
        bank_name=reading.text(data, "bank_name"),
        bank_code=reading.text(data, "bank_code"),
        account_number=account_replies.account_number(data, "account_number"),
        account_name=reading.text(data, "account_name"),
        provider_reference=reading.optional_text(data, "unique_id") or None,
    )


def _transfer(data: Any, reference: str, account_id: str) -> AccountTransfer:
    if reference not in (data.get("reference"), data.get("payment_reference")):
        raise Malformed("the transfer has another reference")
    currency = reading.currency(data, "currency")
    status = reading.one_of(answers.CHARGE_STATUSES, data, "status")
    is_paid = status is ReportedChargeStatus.PAID
    details = data.get(DETAILS) or data
    payer = details.get(PAYER)
    return AccountTransfer(
        reference=reference,
        status=status,
        paid=reading.unsigned_money(data, "amount", currency) if is_paid else None,
        fee=reading.fee(data, "fee", currency),
        payer=port.Payer(
            name=reading.optional_text(payer, "account_name") or None,
            bank=reading.optional_text(payer, "bank_name") or None,
            account_number=reading.optional_text(payer, "account_number") or None,
        ),
        account_reference=account_replies.our_id(account_id),
        account_number=reading.optional_text(details.get(ACCOUNT), "account_number") or None,
    )
