"""Paystack's dedicated accounts, which belong to a customer that Paystack knows by its email.

Transfers into them have references of Paystack's. Amounts are in kobo.
"""

from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote

from manilla.providers import account_replies, port, reading, replies
from manilla.providers.kinds.paystack import answers
from manilla.providers.port import (
    AccountState,
    AccountTransfer,
    Answer,
    Done,
    KnownAccount,
    ReportedAccountStatus,
)
from manilla.providers.replies import Reply
from manilla.providers.wire import Wire

Value = TypeVar("Value")

CHANNEL = "dedicated_nuban"
PER_PAGE = 100
PENDING = AccountState(status=ReportedAccountStatus.PENDING)
NOT_FOUND = AccountState(status=ReportedAccountStatus.NOT_FOUND)


class PaystackAccounts:
    needs = frozenset(("phone",))
    uses: frozenset[str] = frozenset()
    can_repeat = True  # a customer that exists is found by its email

    def __init__(self, pay_in: Wire, preferred_bank: str) -> None:
        self._pay_in = pay_in
        self._preferred_bank = preferred_bank

    async def create(self, order: port.AccountOrder) -> Answer[AccountState]:
        """Requests the account. Paystack reports the result later, in an event."""
        first, _, last = order.customer_name.partition(" ")
        body = {
            "email": order.customer_email,
            "first_name": first,
            "last_name": last.strip() or first,
            "phone": order.phone,
            "preferred_bank": self._preferred_bank,
            "country": "NG",
        }
        return await self._pay_in.post(
            "/dedicated_account/assign", body, lambda _data: PENDING, account_replies.decide
        )

    async def state(self, known: KnownAccount) -> Answer[AccountState]:
        return await self._customer(known, _account_of)

    async def close(self, known: KnownAccount) -> Answer[AccountState]:
        if known.provider_reference is None:
            return account_replies.NO_ID
        closed = AccountState(status=ReportedAccountStatus.CLOSED)
        return await self._pay_in.call(
            "DELETE",
            f"/dedicated_account/{known.provider_reference}",
            lambda reply: _found(reply, lambda _data: closed, closed),
        )

    async def transfer(self, reference: str) -> Answer[AccountTransfer]:
        return await self._pay_in.get(
            _path(reference),
            lambda data: _transfer(data, reading.text(data, "reference")),
            replies.found_or(
                account_replies.unknown_transfer(reference), answers.says_charge_is_unknown
            ),
        )

    async def transfers(
        self, known: KnownAccount, since: datetime, start: str | None = None
    ) -> Answer[port.TransferPage]:
        customer = await self._customer(known, lambda data: reading.id_number(data, "id"))
        if not isinstance(customer, Done) or isinstance(customer.value, AccountState):
            return customer if not isinstance(customer, Done) else Done(port.TransferPage([], None))
        number = int(start or 1)

        def read(reply: Reply) -> Answer[port.TransferPage]:
            is_last = answers.page_count(reply.document.get("meta")) == number or not reply.data
            following = None if is_last else str(number + 1)
            return replies.require_success(reply, lambda data: _page(data, following))

        period = {"from": answers.utc_text(since), "status": "success"}
        query = {**period, "customer": customer.value, "perPage": str(PER_PAGE)}
        return await self._pay_in.call(
            "GET", "/transaction", read, query={**query, "page": str(number)}
        )

    async def _customer(
        self, known: KnownAccount, read: replies.Read[Value]
    ) -> Answer[Value | AccountState]:
        path = f"/customer/{quote(known.customer_email, safe='')}"
        return await self._pay_in.call("GET", path, lambda reply: _found(reply, read, NOT_FOUND))


def _path(reference: str) -> str:
    """Returns the path of a charge. A statement has Paystack's number of it."""
    is_number = reference.isascii() and reference.isdigit()
    return f"/transaction/{'' if is_number else 'verify/'}{quote(reference, safe='')}"


def _found(
    reply: Reply, read: replies.Read[Value], missing: AccountState
) -> Answer[Value | AccountState]:
    if replies.is_not_found(reply):
        return Done(missing)
    return replies.require_success(reply, read)


def _account_of(customer: Any) -> AccountState:
    """Parses the customer's account. A customer without one waits, or was not verified."""
    account = customer.get("dedicated_account") if isinstance(customer, dict) else None
    if not account:
        return PENDING
    if account.get("active") is False or account.get("assigned") is False:
        return AccountState(status=ReportedAccountStatus.CLOSED)
    return AccountState(
        status=ReportedAccountStatus.ACTIVE,
        bank_name=reading.text(reading.field(account, "bank"), "name"),
        account_number=account_replies.account_number(account, "account_number"),
        account_name=reading.text(account, "account_name"),
        provider_reference=reading.id_number(account, "id"),
        holder=reading.text(customer, "customer_code"),
    )


def _page(data: Any, following: str | None) -> port.TransferPage:
    listed = [each for each in reading.items(data) if is_transfer(each)]
    transfers = [_transfer(each, reading.text(each, "reference")) for each in listed]
    return port.TransferPage(transfers, following)


def is_transfer(data: Any) -> bool:
    """Whether a charge is a transfer into a dedicated account."""
    return isinstance(data, dict) and data.get("channel") == CHANNEL


def _transfer(data: Any, reference: str) -> AccountTransfer:
    if not is_transfer(data):
        raise reading.Malformed("the charge is no transfer into a dedicated account")
    state = answers.charge_state(data, reference)
    sender = reading.field(data, "authorization")
    return AccountTransfer(
        reference=reference,
        status=state.status,
        paid=state.paid,
        fee=state.fee,
        payer=port.Payer(
            name=reading.optional_text(sender, "sender_name") or None,
            bank=reading.optional_text(sender, "sender_bank") or None,
            account_number=reading.optional_text(sender, "sender_bank_account_number") or None,
        ),
        account_number=account_replies.account_number(sender, "receiver_bank_account_number"),
        holder=reading.optional_text(data.get("customer"), "customer_code") or None,
        paid_at=reading.readable_moment(data, "paid_at"),
        statement_reference=state.provider_reference,
        reason=state.reason,
    )
