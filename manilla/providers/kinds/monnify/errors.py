"""Interprets Monnify's error codes. An error counts as a rejection only if its code is final.

After every other error, Monnify's documentation says to query the status. This includes code 99.
Code D01 has many texts, and only the texts in `FINAL` are rejections.
"""

from typing import TypeVar

from manilla.providers import replies
from manilla.providers.port import Answer, RefusalCode, Refused
from manilla.providers.replies import Decide, Read, Refusals, Reply

Value = TypeVar("Value")

OTHER_ERROR = "D01"  # the text describes the error
TRANSFER_REJECTIONS = {
    "D03": RefusalCode.INVALID_BENEFICIARY,
    "D04": RefusalCode.PROVIDER_INSUFFICIENT_BALANCE,
    "D06": RefusalCode.PAYOUT_FAILED,  # our IP address is not listed at Monnify
}
# R1, R7 and R9 are about references, R10 and R11 are Monnify's own errors.
REFUND_REJECTIONS = frozenset(("R2", "R3", "R4", "R5", "R6", "R8", "R12"))
UNKNOWN_TRANSFER, UNKNOWN_REFUND = "D02", "R7"

# Texts about an outcome that is open, or about an error of Monnify, NIP or the beneficiary's bank.
INCONCLUSIVE = (
    *("unexpected error", "timed out", "delayed processing", "in progress", "not available"),
    *("invalid session id", "invalid response code", "malfunction", "try again", "at this time"),
    *("transaction failed", "unavailable"),
)
# The texts of code D01 after which Monnify's documentation does not say to query the status.
FINAL: Refusals = (
    (
        (
            *("invalid destination account number", "account number could not be validated"),
            *("dormant beneficiary account", "beneficiary account name mismatch"),
            *("restriction on beneficiary account", "beneficiary account limit exceeded"),
            *("unknown destination bank code", "rejected by destination institution"),
            *("suspected fraud", "sender not permitted to credit beneficiary"),
        ),
        RefusalCode.INVALID_BENEFICIARY,
    ),
    (("invalid amount",), RefusalCode.GATEWAY_PAYOUT_FAILED),
    # The number of our own wallet is wrong.
    (("account number does not belong to merchant",), RefusalCode.PAYOUT_FAILED),
)

# The messages for an unknown reference are not documented.
# Messages with these texts are treated as reports that the reference does not exist.
MISSING = ("not found", "could not find", "cannot find", "does not exist", "no transaction match")
SUBJECTS = ("reference", "transaction", "transfer", "disbursement", "refund", "mandate")


def code_of(reply: Reply) -> str:
    """Returns the error code. Monnify sends it as text or as a number."""
    return str(reply.document.get("responseCode"))


def decide_transfer(reply: Reply, read: Read[Value]) -> Answer[Value]:
    return replies.decide_documented(reply, read, _transfer_rejection)


def _transfer_rejection(reply: Reply) -> RefusalCode | None:
    code = code_of(reply)
    if code != OTHER_ERROR:
        return TRANSFER_REJECTIONS.get(code)
    return None if is_inconclusive(reply) else replies.code_by_words(reply, FINAL)


def decide_refund(reply: Reply, read: Read[Value]) -> Answer[Value]:
    return replies.decide_documented(reply, read, _refund_rejection)


def _refund_rejection(reply: Reply) -> RefusalCode | None:
    return RefusalCode.PAYMENT_DECLINED if code_of(reply) in REFUND_REJECTIONS else None


def is_inconclusive(reply: Reply) -> bool:
    message = reply.message.lower()
    return any(text in message for text in INCONCLUSIVE)


def decide_lookup(reply: Reply, read: Read[Value]) -> Answer[Value]:
    """Interprets the response to an account lookup, which moves no money.

    Monnify reports an invalid account with HTTP 200 and `requestSuccessful: false`.
    """
    is_answered = reply.status in (200, *replies.REFUSING, 404)
    if reply.is_success or not is_answered or is_inconclusive(reply):
        return replies.require_success(reply, read)
    is_forbidden = reply.status == 403 or code_of(reply) == "D06"
    code = RefusalCode.PAYOUT_FAILED if is_forbidden else RefusalCode.INVALID_BENEFICIARY
    return Refused(code, reply.message or "No reason was given.")


def is_missing(reply: Reply, statuses: tuple[int, ...] = (404,)) -> bool:
    """Returns True if Monnify itself reports that it does not know the reference."""
    message = reply.message.lower()
    return (
        reply.status in statuses
        and not reply.is_success
        and any(words in message for words in MISSING)
        and any(word in message for word in SUBJECTS)
    )


def _has_code(reply: Reply, code: str) -> bool:
    """Returns True if the response has this error code. A status of 5xx has no parsed response."""
    return not reply.is_success and code_of(reply) == code


def found_or(missing: Value) -> Decide[Value]:
    return replies.found_or(missing, lambda reply: is_missing(reply, (400, 404)))


find_charge = found_or(replies.NO_CHARGE)
find_refund = replies.found_or(
    replies.NO_REFUND, lambda reply: _has_code(reply, UNKNOWN_REFUND) or is_missing(reply)
)
find_transfer = replies.found_or(
    replies.NO_TRANSFER, lambda reply: _has_code(reply, UNKNOWN_TRANSFER) or is_missing(reply)
)
