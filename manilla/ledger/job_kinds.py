"""The kinds of jobs that the packages above create, for one another's jobs and for statements."""

from enum import StrEnum


class JobKind(StrEnum):
    CHARGE = "charge"  # query a charge
    EXPIRE_PAYMENT = "payment.expire"
    SANDBOX_PAYMENT = "payment.sandbox"
    TRANSFER = "transfer"  # send or query a payout
    SANDBOX_PAYOUT = "payout.sandbox"
    BULK_PAYOUTS = "payout.bulk"
    REFUND = "refund"  # send or query a refund
    NOTIFY = "notify"
