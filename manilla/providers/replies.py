"""Interprets providers' responses.

A response is conclusive only if the provider itself clearly reports the result.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import msgspec

from manilla.providers.port import (
    Answer,
    ChargeState,
    Done,
    RefundState,
    RefusalCode,
    Refused,
    ReportedChargeStatus,
    ReportedRefundStatus,
    TransferState,
    TransferStatus,
    Unknown,
)

Value = TypeVar("Value")

UNAUTHORIZED = 401  # our credentials are wrong
# With these HTTP statuses, an error in the provider's envelope is a conclusive rejection.
REFUSING = frozenset((400, 402, 403, 422))

# Maps words in a transfer's rejection to a rejection code.
Refusals = tuple[tuple[tuple[str, ...], RefusalCode], ...]
TRANSFER_REFUSALS: Refusals = (
    (("insufficient",), RefusalCode.PROVIDER_INSUFFICIENT_BALANCE),
    (
        ("resolve", "invalid bank", "account validation", "validate account", "invalid account"),
        RefusalCode.INVALID_BENEFICIARY,
    ),
    (("not enabled", "whitelist", "minimum transfer"), RefusalCode.PAYOUT_FAILED),
)

# The results for transactions that the provider does not know.
NO_CHARGE = ChargeState(ReportedChargeStatus.NOT_FOUND)
NO_TRANSFER = TransferState(TransferStatus.NOT_FOUND)
NO_REFUND = RefundState(ReportedRefundStatus.NOT_FOUND)


class Reply(msgspec.Struct, frozen=True):
    """A response in the provider's envelope format, with any HTTP status."""

    status: int
    is_success: bool
    message: str
    data: Any
    document: Mapping[str, Any] = {}  # the whole response, for values outside of `data`


class Enveloped(msgspec.Struct, frozen=True):
    is_success: bool | None  # None if the document does not have the provider's envelope
    message: Any
    data: Any


Envelope = Callable[[Mapping[str, Any]], Enveloped]
# A `Read` function converts the data of a successful response, or raises Malformed.
Read = Callable[[Any], Value]
# A `Decide` function interprets a response, and parses its data only after a success.
Decide = Callable[[Reply, Read[Value]], Answer[Value]]


def read_flag(document: Mapping[str, Any]) -> Enveloped:
    """Parses `{"status": true, "message": ..., "data": ...}`."""
    status = document.get("status")
    is_success = status if isinstance(status, bool) else None
    return Enveloped(is_success, document.get("message"), document.get("data"))


def read_word(document: Mapping[str, Any]) -> Enveloped:
    """Parses `{"status": "success", "message": ..., "data": ...}`."""
    status = document.get("status")
    is_success = status == "success" if status in ("success", "error") else None
    return Enveloped(is_success, document.get("message"), document.get("data"))


def require_success(reply: Reply, read: Read[Value]) -> Answer[Value]:
    """Returns Done if the HTTP status is 2xx, the envelope reports success, and data is valid."""
    if 200 <= reply.status < 300 and reply.is_success:
        return Done(read(reply.data))
    reason = f"HTTP {reply.status}: {reply.message}"
    return Unknown(reason, can_pass=reply.status != UNAUTHORIZED)


def decide_payment(reply: Reply, read: Read[Value]) -> Answer[Value]:
    """Interprets the response to a new charge or refund. Every rejection is final.

    A used reference is not a rejection, because the charge or refund exists.
    """
    if is_refusal(reply) and not is_about_reference(reply):
        return Refused(RefusalCode.PAYMENT_DECLINED, reply.message)
    return require_success(reply, read)


def decide_transfer(reply: Reply, read: Read[Value], refusals: Refusals = ()) -> Answer[Value]:
    """Interprets the response to a transfer or account lookup. Every rejection is final.

    `refusals` are provider-specific texts, which are checked before the common texts.
    """
    return refused_transfer(reply, refusals) if is_refusal(reply) else require_success(reply, read)


# Returns the code of a rejection that the provider documents as final, or None.
FinalCode = Callable[[Reply], RefusalCode | None]


def decide_documented(
    reply: Reply, read: Read[Value], final: FinalCode, rejecting: Collection[int] = REFUSING
) -> Answer[Value]:
    """Interprets the response to a transfer or refund of a provider that documents its rejections.

    Any other error is Unknown, even with an HTTP status that rejects: the provider may have acted
    on the request before the error occurred.
    """
    if reply.is_success or reply.status not in rejecting:
        return require_success(reply, read)
    code = None if is_about_reference(reply) else final(reply)
    if code is None:
        return Unknown(f"not a final rejection: HTTP {reply.status}: {reply.message}")
    return Refused(code, reply.message)


def code_by_words(reply: Reply, refusals: Refusals) -> RefusalCode | None:
    message = reply.message.lower()
    codes = (code for words, code in refusals if any(word in message for word in words))
    return next(codes, None)


# A rejection that contains one of these words may mean that the provider knows our reference.
# Providers do not document the complete text, so every message about a reference counts.
ABOUT_REFERENCE = ("duplicate", "already", "reference", "tx_ref")


def is_about_reference(reply: Reply) -> bool:
    """Returns True if the provider may be reporting that the reference already exists."""
    return any(word in reply.message.lower() for word in ABOUT_REFERENCE)


def is_refusal(reply: Reply) -> bool:
    return reply.status in REFUSING and not reply.is_success


def refused_transfer(reply: Reply, refusals: Refusals = ()) -> Refused | Unknown:
    """Converts a rejection. A used reference is Unknown, because a transfer exists."""
    if is_about_reference(reply):
        return Unknown(f"the provider may know the reference: {reply.message}")
    code = code_by_words(reply, (*refusals, *TRANSFER_REFUSALS))
    guidance = reply.message or "No reason was given."
    return Refused(code or RefusalCode.GATEWAY_PAYOUT_FAILED, guidance)


def is_not_found(reply: Reply) -> bool:
    """Returns True if the provider itself reports that it does not know the reference.

    A 404 without this message may come from a proxy.
    """
    return reply.status == 404 and not reply.is_success and "not found" in reply.message.lower()


def found_or(missing: Value, is_missing: Callable[[Reply], bool] = is_not_found) -> Decide[Value]:
    """Returns a function that interprets the response to a status query.

    The result is `missing` if the provider does not know the reference.
    """

    def decide(reply: Reply, read: Read[Value]) -> Answer[Value]:
        return Done(missing) if is_missing(reply) else require_success(reply, read)

    return decide


find_charge = found_or(NO_CHARGE)
find_transfer = found_or(NO_TRANSFER)
find_refund = found_or(NO_REFUND)
