"""What to do about each error: written by hand, for every code of the endpoints' table.

A test fails where a code has no line here, and where a line here has no code.
"""

from enum import StrEnum

import msgspec

from manilla.api.refusals import MethodNotAllowed, NotFound
from manilla.kit.errors import Refusal


class Repeat(StrEnum):
    """Whether sending the same request again can help."""

    NO = "no, mend it first"
    LATER = "yes, later"
    SAME_KEY = "yes, with the same Idempotency-Key"


class Guidance(msgspec.Struct, frozen=True):
    when: str
    do: str
    repeat: Repeat = Repeat.NO


GUIDANCE: dict[str, Guidance] = {
    "VALIDATION_FAILED": Guidance(
        "The body is not JSON, or a field or header is missing or malformed.",
        "Mend what `errors` names: it lists every bad field at once.",
    ),
    "INVALID_AMOUNT": Guidance(
        "Only the amount is at fault: too small, too many decimals, or not a number.",
        "Send a JSON number, not a string, with no more decimals than the currency has.",
    ),
    "INVALID_ENVIRONMENT": Guidance(
        "`X-Environment` is neither `sandbox` nor `production`.",
        "Send one of the two, in lower case. Left out, it means `production`.",
    ),
    "INVALID_CREDENTIALS": Guidance(
        "A key is missing, unknown or of the other environment; or timestamp or signature is "
        "wrong.",
        "Look at `errors`: it names the header at fault. Where it is missing, a key is. Compare "
        "your signed string with the calculator's under Authentication.",
    ),
    "MERCHANT_PENDING_APPROVAL": Guidance(
        "A production call before your business is approved.",
        "Use the sandbox until it is. Your business profile in the dashboard says what is missing.",
    ),
    "MERCHANT_SUSPENDED": Guidance(
        "Your account is rejected or disabled, in both environments.",
        "Talk to the platform's support.",
    ),
    "NOT_FOUND": Guidance(
        "There is no endpoint at this address.", "Check the path; it begins with `/api/v1`."
    ),
    "METHOD_NOT_ALLOWED": Guidance(
        "The endpoint is there, but not for this method.", "Use the one that `Allow` names."
    ),
    "TRANSACTION_NOT_FOUND": Guidance(
        "No such payment or payout of yours in this environment.",
        "Check the `trx_id`, and that `X-Environment` is the one it was made in. A payment is not "
        "found by verify-payout, nor the reverse.",
    ),
    "INVALID_CURRENCY": Guidance(
        "The currency is not enabled for your account.",
        "Use one that is, in upper case, or have it enabled by the platform's support.",
    ),
    "WALLET_NOT_AVAILABLE": Guidance(
        "You have no active wallet in this currency.", "Talk to the platform's support."
    ),
    "DUPLICATE_REFERENCE": Guidance(
        "The `ref_trx` was used before, or the `Idempotency-Key` with another body.",
        "Do not take a new reference before you know what became of the first: its `trx_id` and "
        "`status` stand in the answer. To get the first answer again, send the same key with the "
        "same bytes.",
    ),
    "insufficient_balance": Guidance(
        "Your wallet cannot cover the payout and its fee; or, for a payment, the commission that "
        "you bear.",
        "Fund the wallet or send less. For payments, the customer can bear the commission: see API "
        "commission in the dashboard. Nothing was debited.",
    ),
    "provider_insufficient_balance": Guidance(
        "The provider's own wallet is too low.",
        "Try later, or another method. Nothing was debited.",
        Repeat.LATER,
    ),
    "kyc_required": Guidance(
        "The platform wants your KYC or a verified phone before payouts.",
        "Complete it under Business profile; the text says which of the two is missing.",
    ),
    "merchant_payout_disabled": Guidance(
        "Payouts are switched off, for you or for everybody.", "Talk to the platform's support."
    ),
    "payout_schedule_blocked": Guidance(
        "No payouts are taken on this weekday, in Lagos.",
        "Send it on one of the days that the text names.",
        Repeat.LATER,
    ),
    "gateway_not_configured": Guidance(
        "The method's provider is not configured, or switched off.",
        "Fetch payout-methods anew and choose another method.",
    ),
    "invalid_beneficiary": Guidance(
        "Something about who is paid: a field is missing or contradicts itself, the bank code is "
        "another provider's, or the account cannot be verified.",
        "Mend what the text names. Bank codes belong to one provider: fetch bank-list with the "
        "`method_code` that you pay by.",
    ),
    "gateway_payout_failed": Guidance(
        "The transfer was refused or failed on its way, or came back. Told by verify-payout and "
        "the notification; what was debited is refunded.",
        "Read the message, check the beneficiary, and send again under a new `ref_trx`.",
    ),
    "payout_failed": Guidance(
        "No such method, another currency than the method's, an amount out of its range, or a "
        "provider that does not let the platform pay out.",
        "The text says which.",
        Repeat.LATER,
    ),
    "RATE_LIMIT_EXCEEDED": Guidance(
        "Too many requests in a minute.",
        "Wait for `Retry-After` seconds. `RateLimit` on every answer says how many are left.",
        Repeat.LATER,
    ),
    "SERVER_ERROR": Guidance(
        "Our fault. Whether it was taken is not known.",
        "Repeat with the same key and reference. If it stays, tell support the `X-Request-Id`.",
        Repeat.SAME_KEY,
    ),
    "SERVICE_UNAVAILABLE": Guidance(
        "Too busy, or the database is away for a moment: whether it was taken is not known. Or the "
        "payout method's provider does not answer: nothing was debited, as the text says.",
        "Repeat with the same key and reference after `Retry-After` seconds.",
        Repeat.SAME_KEY,
    ),
}

# What a transaction can have failed with: `error_code` in verify and in notifications.
OUTCOMES: dict[str, Guidance] = {
    "INSUFFICIENT_FUNDS": Guidance(
        "The customer's money was not enough at the last try, and the link has expired.",
        "Let the customer try again with a new payment, and be ready for a later success.",
    ),
    "PAYMENT_DECLINED": Guidance(
        "The provider declined the last try, and the link has expired.",
        "Let the customer try again with a new payment, and be ready for a later success.",
    ),
    "PAYMENT_CANCELED": Guidance(
        "The customer canceled.",
        "Note it, and be ready for a later success: the customer may have paid all the same.",
    ),
    "EXPIRED_SESSION": Guidance(
        "Nobody paid in time.",
        "Note it, and be ready for a later success: a bank transfer can come late.",
    ),
}

# What no endpoint answers, because none was reached.
OUTSIDE: tuple[type[Refusal], ...] = (NotFound, MethodNotAllowed)
