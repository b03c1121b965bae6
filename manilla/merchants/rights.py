"""The permissions of API keys. Each endpoint of the merchant API declares what it requires."""

from collections.abc import Collection
from enum import StrEnum

from manilla.kit.errors import Refusal


class Right(StrEnum):
    PAYMENTS = "payments"  # create payments and payment links
    PAYOUTS = "payouts"  # send payouts
    REFUNDS = "refunds"  # refund payments
    READ = "read"  # read transactions, balances and events
    MANAGE = "manage"  # change customers and their accounts
    CHARGE = "charge"  # charge what customers have saved
    # Manage the webhook endpoints of this key. They receive the events of all transactions.
    WEBHOOKS = "webhooks"


GRANTABLE = tuple(Right)
# The rights that version 0.15.0 knows. It does not read the column with the other ones.
FIRST = (Right.PAYMENTS, Right.PAYOUTS, Right.REFUNDS, Right.READ)
ALL_RIGHTS = frozenset(Right)  # the permissions of the merchant's main API key


class InsufficientPermission(Refusal):
    status, code = 403, "INSUFFICIENT_PERMISSION"
    message = "This API key does not have the required right."


def check(rights: Collection[Right], required: Right | None) -> None:
    """Rejects a key without the required permission. If `required` is None, accepts every key."""
    if required is not None and required not in rights:
        raise missing(required)


def missing(right: Right, text: str = "") -> InsufficientPermission:
    text = text or f"This API key does not have the right `{right}`."
    return InsufficientPermission(text, details={"required_right": right})
