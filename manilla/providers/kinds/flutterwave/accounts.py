"""Flutterwave's permanent virtual accounts. Amounts are in naira.

All transfers into an account have its `tx_ref`, so only Flutterwave's id identifies a transfer. An
account can be queried only by Flutterwave's own reference, which the response to its request has.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from manilla.providers import account_replies, port, reading, replies
from manilla.providers.kinds.flutterwave import answers
from manilla.providers.port import (
    AccountState,
    AccountTransfer,
    Answer,
    Done,
    KnownAccount,
    ReportedAccountStatus,
    Unknown,
)
from manilla.providers.reading import Malformed
from manilla.providers.replies import Reply
from manilla.providers.wire import Wire

ACCOUNTS, TRANSACTIONS = "/v3/virtual-account-numbers", "/v3/transactions"
CREATED = "02"  # the response code of a new account
INACTIVE = "inactive"
CLOSED = AccountState(status=ReportedAccountStatus.CLOSED)
LOST = Unknown("the response to the request for the account was lost", needs_lookup=True)


class FlutterwaveAccounts:
    needs = frozenset(("bvn",))
    uses = frozenset(("bvn",))
    can_repeat = False  # whether Flutterwave rejects a used reference is not documented

    def __init__(self, pay_in: Wire) -> None:
        self._pay_in = pay_in

    async def create(self, order: port.AccountOrder) -> Answer[AccountState]:
        first, _, last = order.customer_name.partition(" ")
        body = {
            "email": order.customer_email,
            "is_permanent": True,
            "bvn": order.bvn,
            "tx_ref": order.reference,
            "narration": order.customer_name,
            "firstname": first,
            "lastname": last.strip() or first,
        }
        return await self._pay_in.post(
            ACCOUNTS, body, lambda data: _account(data, order.customer_name), account_replies.decide
        )

    async def state(self, known: KnownAccount) -> Answer[AccountState]:
        if known.provider_reference is None:
            return LOST
        return await self._pay_in.get(
            f"{ACCOUNTS}/{known.provider_reference}", lambda data: _account(data, "")
        )

    async def close(self, known: KnownAccount) -> Answer[AccountState]:
        if known.provider_reference is None:
            return account_replies.NO_ID
        return await self._pay_in.post(
            f"{ACCOUNTS}/{known.provider_reference}", {"status": INACTIVE}, lambda _data: CLOSED
        )

    async def transfer(self, reference: str) -> Answer[AccountTransfer]:
        if not (reference.isascii() and reference.isdigit()):
            return Done(account_replies.unknown_transfer(reference))
        return await self._pay_in.get(
            f"{TRANSACTIONS}/{reference}/verify",
            lambda data: _transfer(data, reference),
            replies.found_or(
                account_replies.unknown_transfer(reference), answers.says_charge_is_unknown
            ),
        )

    async def transfers(
        self, known: KnownAccount, since: datetime, start: str | None = None
    ) -> Answer[port.TransferPage]:
        number = int(start or 1)

        def read(reply: Reply) -> Answer[port.TransferPage]:
            meta = reply.document.get("meta")
            pages = meta.get("page_info", {}).get("total_pages") if isinstance(meta, dict) else None
            is_last = not reply.data or not isinstance(pages, int) or number >= pages
            following = None if is_last else str(number + 1)
            return replies.require_success(reply, lambda data: _page(data, known, following))

        until = datetime.now(UTC) + timedelta(days=1)
        query = {"from": f"{since:%Y-%m-%d}", "to": f"{until:%Y-%m-%d}", "page": str(number)}
        query |= {"tx_ref": known.reference, "status": "successful"}
        return await self._pay_in.call("GET", TRANSACTIONS, read, query=query)


def _account(data: Any, name: str) -> AccountState:
    if reading.optional_text(data, "response_code") not in ("", CREATED):
        raise Malformed("response_code is not that of an account")
    return AccountState(
        status=ReportedAccountStatus.ACTIVE,
        bank_name=reading.text(data, "bank_name"),
        account_number=account_replies.account_number(data, "account_number"),
        account_name=name,
        provider_reference=reading.text(data, "order_ref"),
    )


def _page(data: Any, known: KnownAccount, following: str | None) -> port.TransferPage:
    # The parameter that selects the account is not documented, so the reference is compared.
    own = [each for each in reading.items(data) if each.get("tx_ref") == known.reference]
    return port.TransferPage([_transfer(e, reading.id_number(e, "id")) for e in own], following)


def _transfer(data: Any, reference: str) -> AccountTransfer:
    if reading.id_number(data, "id") != reference:
        raise Malformed("id belongs to another transaction")
    account_id = account_replies.our_id(reading.text(data, "tx_ref"))
    state = answers.charge_state(data, account_id)
    sender = data.get("meta")
    return AccountTransfer(
        reference=reference,
        status=state.status,
        paid=state.paid,
        fee=state.fee,
        payer=port.Payer(
            name=reading.optional_text(sender, "originatorname") or None,
            bank=reading.optional_text(sender, "bankname") or None,
            account_number=reading.optional_text(sender, "originatoraccountnumber") or None,
        ),
        account_reference=account_id,
        reason=state.reason,
    )


def subject_of(data: Any) -> tuple[port.WebhookSubject, str]:
    """Returns what a charge's webhook is about. Our id of an account is its `tx_ref`."""
    reference = reading.text(data, "tx_ref")
    if account_replies.named_account(data, "tx_ref") is None:
        return port.WebhookSubject.CHARGE, reference
    return port.WebhookSubject.ACCOUNT_TRANSFER, reading.id_number(data, "id")
