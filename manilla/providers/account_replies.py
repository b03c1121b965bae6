"""What the adapters share that read about permanent accounts of customers."""

import re
from typing import Any, TypeVar

from manilla.ledger.trx_ids import ACCOUNT_IDS
from manilla.providers import reading, replies
from manilla.providers.port import (
    AccountState,
    AccountTransfer,
    Answer,
    RefusalCode,
    Refused,
    ReportedAccountStatus,
    ReportedChargeStatus,
)
from manilla.providers.reading import Malformed
from manilla.providers.replies import Read, Reply

Value = TypeVar("Value")

NO_ID = Refused(RefusalCode.NOT_SUPPORTED, "The provider's id of the account is not known.")
NO_CLOSING = Refused(RefusalCode.NOT_SUPPORTED, "The provider's API cannot close accounts.")
NOT_FOUND = AccountState(status=ReportedAccountStatus.NOT_FOUND)
_NUMBER = re.compile(r"[0-9]{10}")
# Maps words in a rejection to what the merchant or an administrator can do.
_REFUSALS = (
    (("limit", "maximum"), RefusalCode.ACCOUNT_LIMIT_REACHED),
    (
        ("not enabled", "not available", "not activated", "not permitted", "not allowed"),
        RefusalCode.ACCOUNTS_NOT_ENABLED,
    ),
)
# After these rejections, an account may exist.
_EXISTING = ("already", "duplicate", "same reference", "exists")


def decide(reply: Reply, read: Read[Value]) -> Answer[Value]:
    """Interprets the response to a request for an account.

    A provider that already has the account is asked about it.
    """
    message = reply.message.lower()
    if not replies.is_refusal(reply) or any(words in message for words in _EXISTING):
        return replies.require_success(reply, read)
    for words, code in _REFUSALS:
        if any(word in message for word in words):
            return Refused(code, reply.message)
    return Refused(RefusalCode.ACCOUNT_DETAILS_REJECTED, reply.message)


def account_number(data: Any, name: str) -> str:
    """Parses an account number, which always has ten digits in Nigeria."""
    value = reading.text_or_number(data, name)
    if not _NUMBER.fullmatch(value):
        raise Malformed(f"{name} is not an account number")
    return value


def our_id(reference: str) -> str:
    """Returns our id of an account from a reference or from the beginning of an email address."""
    account_id = reference.partition("@")[0].upper()
    if ACCOUNT_IDS.owner_of(account_id) is None:
        raise Malformed("the account is not ours")
    return account_id


def named_account(data: Any, name: str) -> str | None:
    """Returns our id of an account from a webhook, or None if the field has something else."""
    try:
        return our_id(reading.text(data, name))
    except Malformed:
        return None


def unknown_transfer(reference: str) -> AccountTransfer:
    return AccountTransfer(reference=reference, status=ReportedChargeStatus.NOT_FOUND)
