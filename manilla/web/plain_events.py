"""The texts that merchants see for the events of their transactions.

Only administrators see an event's stored details, because they contain names of provider accounts,
providers' messages and administrators' notes. Merchants see the sentences of this module instead.
For events without such a sentence, merchants see no details.
"""

from collections.abc import Callable, Mapping

from manilla.ledger.timeline import TimelineEvent
from manilla.payments.choice import Reason
from manilla.payments.payment import BY_MERCHANT
from manilla.payouts.attempts import AttemptEnd

Facts = Mapping[str, str]

RETURNED = "The money was returned to your wallet."
_TITLES = {
    "moved_to_another_rail": "Sent by another route",
    "customer_sent": "The customer said that the money was sent",
    "suspense": "Held for review",
    "part_received": "Less than the amount due received",
    "surplus_received": "More than the amount due received",
    "return_started": "Return to the customer started",
    "return_completed": "Returned to the customer",
    "return_failed": "Return to the customer failed",
    "suspense_credit": "Review ended: credited",
    "suspense_return": "Review ended: returned to the customer",
    "suspense_keep": "Review ended: not credited",
}


def title(event: str) -> str:
    """Returns an event's title, for example `Charge declined` for `charge_declined`."""
    if event.startswith("case_"):
        return "Reviewed"
    return _TITLES.get(event, event.replace("_", " ").capitalize())


def detail(step: TimelineEvent) -> str:
    if step.event == "accepted":
        return step.detail or ""
    said = _DETAILS.get(step.event, "")
    return said if isinstance(said, str) else said(step.facts)


_MOVES = {
    AttemptEnd.REJECTED: "The bank transfer was rejected. We sent it by another route.",
    AttemptEnd.NOT_RECEIVED: "The bank transfer could not be sent. We sent it by another route.",
    AttemptEnd.ELSEWHERE: "The bank transfer went by a different route than we had recorded.",
}
_REASONS = {
    Reason.ONLY: "the only gateway",
    Reason.ONLY_AVAILABLE: "the only available gateway",
    Reason.NO_SETBACKS: "no recent failures",
    Reason.FEWEST_SETBACKS: "the fewest recent failures",
    Reason.ON_CHECKOUT: "checkout already shows its account number",
    Reason.FIRST_OF_MERCHANT: "first in your order",
    Reason.NEXT_OF_MERCHANT: "next in your order",
    Reason.LOWEST_FEE: "the lowest fee",
    Reason.FIRST_OF_PLATFORM: "first in the platform's order",
    Reason.NEXT: "next after {after}",
}


def _moved(facts: Facts) -> str:
    return _MOVES[AttemptEnd(facts.get("ended_as", AttemptEnd.NOT_RECEIVED))]


def _gateway_chosen(facts: Facts) -> str:
    """Returns the gateway's name and why it was chosen, without the provider's fee."""
    if "gateway" not in facts or "reason" not in facts:  # an earlier version stored this event
        return ""
    return "{gateway}: ".format(**facts) + _REASONS[Reason(facts["reason"])].format(**facts) + "."


def _canceled(facts: Facts) -> str:
    if facts == BY_MERCHANT:
        return "Your server canceled the payment."
    return "The payment was canceled."


def _charge_declined(facts: Facts) -> str:
    return f"Checkout showed the customer: {facts['shown']}" if "shown" in facts else ""


def _refund(sentence: str) -> Callable[[Facts], str]:
    """Returns a function that prefixes the sentence with the refund's id and amount."""
    return lambda facts: (f"{_named(facts)}. " if "refund" in facts else "") + sentence


def _refund_started(facts: Facts) -> str:
    return f"{_named(facts)}: {facts['reason']}" if "refund" in facts else ""


def _dispute(sentence: str) -> Callable[[Facts], str]:
    """Returns a function that prefixes the sentence with the dispute's id and amount."""
    return lambda facts: (f"{_named_dispute(facts)}. " if "dispute" in facts else "") + sentence


def _dispute_opened(facts: Facts) -> str:
    reason = facts.get("reason")
    sentence = "The customer's bank takes the payment back."
    return _dispute(f"{sentence} Reason: {reason}" if reason else sentence)(facts)


def _named_dispute(facts: Facts) -> str:
    return f"{facts['dispute']}, {facts['amount']}"


def _named(facts: Facts) -> str:
    return f"{facts['refund']}, {facts['amount']}"


_DETAILS: dict[str, str | Callable[[Facts], str]] = {
    "moved_to_another_rail": _moved,
    "rejection_contradicted": "Reports about the bank transfer conflict. We are reviewing them.",
    "delivered": "The bank transfer was delivered.",
    "failed": f"The bank transfer failed. {RETURNED}",
    "reversed": f"The bank returned the transfer after it was delivered. {RETURNED}",
    "rejected": f"An administrator rejected the payout. {RETURNED}",
    "paid": "The customer paid.",
    "declined": "The payment was declined.",
    "canceled": _canceled,
    "expired": "The customer did not pay before the link expired.",
    "gateway_chosen": _gateway_chosen,
    "charge_not_created": "The gateway did not create the charge.",
    "charge_declined": _charge_declined,
    "suspense": "We received money that does not match this payment. We are reviewing the money.",
    "suspense_credit": "We reviewed this payment and credited it to your wallet.",
    "suspense_return": "We reviewed this payment and are returning the money to the customer.",
    "suspense_keep": "We reviewed this payment. Nobody claimed the money, so it was not credited.",
    "refund_started": _refund_started,
    "refund_completed": _refund("The refund was paid to the customer."),
    "refund_failed": _refund(f"The refund failed. {RETURNED}"),
    "part_received": "Checkout requests the rest until the link expires.",
    "surplus_received": "The surplus is refunded to the customer.",
    "return_started": _refund_started,
    "return_completed": _refund("The money was paid back to the customer."),
    "return_failed": _refund("The money could not be paid back. We are reviewing the case."),
    "dispute_opened": _dispute_opened,
    "dispute_updated": _dispute("The provider or an administrator changed it."),
    "dispute_submitted": _dispute("The answer was submitted."),
    "dispute_reopened": _dispute("It needs a response again."),
    "dispute_won": _dispute(RETURNED),
    "dispute_lost": _dispute("The customer keeps the money."),
    "dispute_accepted": _dispute("The customer keeps the accepted amount."),
    "dispute_deadline_missed": _dispute("Nobody answered before the deadline."),
    "case_write_off": "We corrected our records. Your wallet did not change.",
    "case_debit": "We corrected our records. Your wallet was debited.",
    "case_reverse": f"The bank returned the transfer. {RETURNED}",
}
