"""Simulates Monnify's calls for banks, name lookup, transfers, balance and search."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from manilla.kit.clock import LAGOS
from manilla.kit.money import Money, MoneyError
from manilla_simulator import names, transfers
from manilla_simulator.dialects.monnify.common import (
    INVALID_ACCOUNT,
    NAME_MISMATCH,
    WALLET_NOT_FOUND,
    account_of,
    amount_of,
    clock_time,
    is_test,
    page_of,
    zoned_time,
)
from manilla_simulator.provider import Provider
from manilla_simulator.state import CURRENCY, Transfer, TransferStatus
from manilla_simulator.transfers import FORCED, TransferOutcome
from manilla_simulator.wire import Answer, Ask, Denial, Fields, Notice, Refused, invalid

MILLISECONDS_LENGTH_MAX = 14
STATUS_WORDS = {
    "PENDING_AUTHORIZATION": TransferStatus.AWAITING_APPROVAL,
    "PENDING_BATCH_AUTHORIZATION": TransferStatus.AWAITING_APPROVAL,
    "OTP_EMAIL_DISPATCH_FAILED": TransferStatus.AWAITING_APPROVAL,
    "PENDING": TransferStatus.PROCESSING,
    "AWAITING_PROCESSING": TransferStatus.PROCESSING,
    "IN_PROGRESS": TransferStatus.PROCESSING,
    "SUCCESS": TransferStatus.SUCCESS,
    "COMPLETED": TransferStatus.SUCCESS,
    "FAILED": TransferStatus.FAILED,
    "EXPIRED": TransferStatus.FAILED,
    "REVERSED": TransferStatus.REVERSED,
}
DEFAULT_WORD = {
    TransferStatus.AWAITING_APPROVAL: "PENDING_AUTHORIZATION",
    TransferStatus.PROCESSING: "PENDING",
    TransferStatus.SUCCESS: "SUCCESS",
    TransferStatus.FAILED: "FAILED",
    TransferStatus.REVERSED: "REVERSED",
}
EVENTS = {
    "SUCCESS": "SUCCESSFUL_DISBURSEMENT",
    "COMPLETED": "SUCCESSFUL_DISBURSEMENT",
    "FAILED": "FAILED_DISBURSEMENT",
    "REVERSED": "REVERSED_DISBURSEMENT",
}
OTP = "123456"
WRONG_OTP = Denial(400, "Invalid or expired authorization code", "99")
NO_OTP_NEEDED = Denial(422, "Transaction is not awaiting authorization", "99")


def list_banks(provider: Provider, _ask: Ask) -> Answer:
    listed = [
        {
            "name": bank.name,
            "code": bank.code,
            "nipBankCode": bank.institution_code,
            "ussdTemplate": None,
            "baseUssdCode": None,
            "transferUssdTemplate": None,
        }
        for bank in provider.wire.banks.values()
    ]
    return Answer(listed, "success")


def validate_account(provider: Provider, ask: Ask) -> Answer:
    account_number, bank_code = ask.query_text("accountNumber"), ask.query_text("bankCode")
    if len(account_number) != 10 or not account_number.isdecimal():
        raise invalid("accountNumber must be 10 digits", "accountNumber")
    try:
        bank, holder = transfers.resolve(provider, bank_code, account_number)
    except Refused:
        raise Refused(INVALID_ACCOUNT) from None
    body = {
        "accountNumber": account_number,
        "accountName": holder,
        "bankCode": bank.code,
        "currencyCode": CURRENCY,
    }
    return Answer(body, "success")


def send(provider: Provider, ask: Ask) -> Answer:
    fields = ask.fields.only(
        *("amount", "reference", "narration", "destinationBankCode", "destinationAccountNumber"),
        *("destinationAccountName", "currency", "sourceAccountNumber", "async", "senderInfo"),
    )
    reference = fields.reference(most=100)
    earlier = provider.transfers.get(reference)
    if earlier is not None and account_of(provider).duplicate_transfer_returns_first:
        earlier.duplicates += 1
        return Answer(_accepted(earlier), "success")
    order = _order(provider, fields, reference)
    return Answer(_accepted(transfers.accept(provider, order)), "success")


def _order(provider: Provider, fields: Fields, reference: str) -> transfers.Order:
    fields.currency()
    amount = amount_of(fields, "amount")
    narration = fields.text("narration", least=3, most=100)
    bank_code, number = fields.text("destinationBankCode"), fields.text("destinationAccountNumber")
    if len(number) != 10 or not number.isdecimal():
        raise invalid("destinationAccountNumber must be 10 digits", "destinationAccountNumber")
    name = fields.text("destinationAccountName")
    is_async = fields.flag("async", default=False)
    transfers.refuse_duplicate(provider, reference)
    _check_wallet(provider, fields.text("sourceAccountNumber"))
    transfers.resolve(provider, bank_code, number)
    if account_of(provider).checks_account_name and name != names.holder_of(number):
        raise Refused(NAME_MISMATCH)
    at_once = is_test(provider) and not is_async and number not in FORCED
    return transfers.Order(
        reference=reference,
        amount=amount,
        bank_code=bank_code,
        account_number=number,
        narration=narration,
        awaits_approval=account_of(provider).transfers_need_otp,
        outcome=TransferOutcome(TransferStatus.SUCCESS, 0) if at_once else None,
    )


def _check_wallet(provider: Provider, account_number: str) -> None:
    if account_number != account_of(provider).source_account_number:
        raise Refused(WALLET_NOT_FOUND)


def _accepted(item: Transfer) -> dict[str, Any]:
    return {
        "amount": item.amount.amount,
        "reference": item.reference,
        "status": word_for(item),
        "dateCreated": zoned_time(item.created_at),
        "totalFee": item.fee.amount,
        "destinationAccountName": item.account_name,
        "destinationBankName": item.bank_name,
        "destinationAccountNumber": item.account_number,
        "destinationBankCode": item.bank_code,
        "comment": item.reason,
    }


def word_for(item: Transfer) -> str:
    return item.provider_status or DEFAULT_WORD[item.status]


def authorize(provider: Provider, ask: Ask) -> Answer:
    fields = ask.fields.only("reference", "authorizationCode")
    found = _awaiting(provider, fields)
    if fields.text("authorizationCode") != OTP:
        raise Refused(WRONG_OTP)
    transfers.approve(provider, found)
    return Answer(_accepted(found), "success")


def resend_code(provider: Provider, ask: Ask) -> Answer:
    _awaiting(provider, ask.fields.only("reference"))
    text = "Authorization code will be processed and sent to predefined email addresses(s)"
    return Answer({"message": text}, "success")


def _awaiting(provider: Provider, fields: Fields) -> Transfer:
    found = transfers.find(provider, fields.text("reference"))
    if found.status is not TransferStatus.AWAITING_APPROVAL:
        raise Refused(NO_OTP_NEEDED)
    return found


def summary(provider: Provider, ask: Ask) -> Answer:
    found = transfers.find(provider, ask.query_text("reference"))
    return Answer(_summary(provider, found), "success")


def _summary(provider: Provider, item: Transfer) -> dict[str, Any]:
    account = account_of(provider)
    return {
        "amount": item.amount.amount,
        "reference": item.reference,
        "narration": item.narration,
        "currency": CURRENCY,
        "fee": item.fee.amount,
        "twoFaEnabled": account.transfers_need_otp,
        "status": word_for(item),
        "transactionDescription": item.reason,
        "transactionReference": own_reference(item),
        "createdOn": zoned_time(item.created_at),
        "sourceAccountNumber": account.source_account_number,
        "destinationAccountNumber": item.account_number,
        "destinationAccountName": item.account_name,
        "destinationBankCode": item.bank_code,
        "destinationBankName": item.bank_name,
    }


def own_reference(item: Transfer) -> str:
    return f"MFDS{item.created_at.astimezone(LAGOS):%Y%m%d%H%M%S}{item.number:09d}"


def balance(provider: Provider, ask: Ask) -> Answer:
    _check_wallet(provider, ask.query_text("accountNumber"))
    available, ledger = provider.wallet.available.amount, provider.wallet.ledger.amount
    if not account_of(provider).balances_are_text:
        return Answer({"availableBalance": available, "ledgerBalance": ledger}, "success")
    return Answer({"availableBalance": str(available), "ledgerBalance": str(ledger)}, "success")


def search(provider: Provider, ask: Ask) -> Answer:
    """Returns the statement of the wallet that pays for transfers."""
    _check_wallet(provider, ask.query_text("sourceAccountNumber"))
    start, end = _time(ask, "startDate"), _time(ask, "endDate")
    least, most = _money(ask, "amountFrom"), _money(ask, "amountTo")
    matching = [
        item
        for item in provider.transfers.select()
        if (start is None or start <= item.created_at)
        and (end is None or item.created_at <= end)
        and (least is None or least <= item.amount)
        and (most is None or item.amount <= most)
    ]
    return _page(provider, ask, matching, provider.faults.statement_overlap)


def list_transfers(provider: Provider, ask: Ask) -> Answer:
    return _page(provider, ask, list(provider.transfers.select()))


def _page(provider: Provider, ask: Ask, items: list[Transfer], overlap: int = 0) -> Answer:
    page = page_of(ask, items, "pageNo", "pageSize", overlap)
    return Answer(
        {**page, "content": [_summary(provider, item) for item in page["content"]]}, "success"
    )


def _time(ask: Ask, name: str) -> datetime | None:
    """Parses a Unix timestamp in milliseconds."""
    text = ask.query.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= MILLISECONDS_LENGTH_MAX):
        raise invalid(f"{name} is not a valid timestamp", name)
    return datetime.fromtimestamp(int(text) / 1000, UTC)


def _money(ask: Ask, name: str) -> Money | None:
    text = ask.query.get(name, "")
    if not text:
        return None
    try:
        return Money.of(Decimal(text), CURRENCY)
    except (ArithmeticError, MoneyError):
        raise invalid(f"{name} is not a valid amount", name) from None


def transfer_notice(_provider: Provider, item: Transfer) -> Notice | None:
    """Returns the webhook about a transfer. Monnify sends no webhook about an expired transfer."""
    event = EVENTS.get(word_for(item))
    if event is None:
        return None
    data = {
        "amount": item.amount.amount,
        "transactionReference": own_reference(item),
        "fee": item.fee.amount,
        "transactionDescription": item.reason,
        "destinationAccountNumber": item.account_number,
        "sessionId": item.session_id,
        "createdOn": clock_time(item.created_at),
        "destinationAccountName": item.account_name,
        "reference": item.reference,
        "destinationBankCode": item.bank_code,
        "completedOn": clock_time(item.settled_at),
        "narration": item.narration,
        "currency": CURRENCY,
        "destinationBankName": item.bank_name,
        "status": word_for(item),
    }
    return Notice(event, item.reference, {"eventType": event, "eventData": data})
