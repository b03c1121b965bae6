"""What merchants read about the events of their transactions.

The stored details are for administrators: they contain the names of provider accounts, providers'
own words and administrators' notes. Merchants read the sentences of this table instead. An event
that is not in it has no details.
"""

import re
from collections.abc import Callable

from manilla.ledger.timeline import TimelineEvent

RETURNED = "The money was returned to your wallet."
# The end of the details of a payout whose rail was chosen automatically.
_ROUTE = re.compile(r" Sent by \w+\.( Not chosen: [^.]*\.)?")
_TITLES = {
    "moved_to_another_rail": "Sent by another route",
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
    """Returns the title of an event: `charge_declined` as `Charge declined`."""
    if event.startswith("case_"):
        return "Reviewed"
    return _TITLES.get(event, event.replace("_", " ").capitalize())


def detail(step: TimelineEvent) -> str:
    said = _DETAILS.get(step.event, "")
    return said if isinstance(said, str) else said(step.detail or "")


def _accepted(text: str) -> str:
    return _ROUTE.sub("", text)


def _moved(text: str) -> str:
    if " rejected the transfer: " in text:
        return "The bank transfer was refused. We sent it by another route."
    if text.startswith("Moved to "):
        return "The bank transfer is on another route than we had recorded."
    return "The bank transfer could not be sent. We sent it by another route."


def _gateway_chosen(text: str) -> str:
    """Names the gateway and the main reason, without the provider's fee."""
    name, _, why = text.partition("Chose ")[2].partition(";")[0].partition(": ")
    reason = why.partition(",")[0].rstrip(".").replace("the merchant's order", "your order")
    return f"{name}: {reason}." if name and reason else ""


def _charge_declined(text: str) -> str:
    shown = text.partition("Checkout says: ")[2]
    return f"Checkout showed the customer: {shown}" if shown else ""


def _refund(sentence: str) -> Callable[[str], str]:
    """Adds the refund's id and amount, which the details begin with."""
    return lambda text: f"{text.partition(': ')[0]}. {sentence}"


_DETAILS: dict[str, str | Callable[[str], str]] = {
    "accepted": _accepted,
    "moved_to_another_rail": _moved,
    "rejection_contradicted": "The answers about the bank transfer differ. We are checking it.",
    "delivered": "The bank transfer was delivered.",
    "failed": f"The bank transfer failed. {RETURNED}",
    "reversed": f"The bank returned the transfer after it was delivered. {RETURNED}",
    "rejected": f"An administrator rejected the payout. {RETURNED}",
    "paid": "The customer paid.",
    "declined": "The payment was declined.",
    "canceled": "The payment was canceled.",
    "expired": "The customer did not pay before the link expired.",
    "gateway_chosen": _gateway_chosen,
    "charge_not_created": "The gateway did not create the charge.",
    "charge_declined": _charge_declined,
    "suspense": "We received money that does not match this payment. We are reviewing it.",
    "suspense_credit": "We reviewed the money and credited it to your wallet.",
    "suspense_return": "We reviewed the money and return it to the customer.",
    "suspense_keep": "We reviewed the money. Nobody claimed it, so it was not credited.",
    "refund_started": lambda text: text,
    "refund_completed": _refund("The refund was paid to the customer."),
    "refund_failed": _refund(f"The refund failed. {RETURNED}"),
    "part_received": "Checkout asks for the rest until the link expires.",
    "surplus_received": "The surplus goes back to the customer.",
    "return_started": lambda text: text,
    "return_completed": _refund("The money was paid back to the customer."),
    "return_failed": _refund("The money could not be paid back. We are reviewing it."),
    "case_write_off": "We corrected our records. Your wallet did not change.",
    "case_debit": "We corrected our records. Your wallet was debited.",
    "case_reverse": f"The bank returned the transfer. {RETURNED}",
}
