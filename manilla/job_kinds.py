"""The kinds of jobs, which several packages and SQL statements use."""

from enum import StrEnum


class JobKind(StrEnum):
    CHARGE = "charge"  # query a charge's status
    EXPIRE_PAYMENT = "payment.expire"
    SANDBOX_PAYMENT = "payment.sandbox"
    TRANSFER = "transfer"  # send a payout, or query its status
    SANDBOX_PAYOUT = "payout.sandbox"
    LARGE_PAYOUT = "payout.large"  # write emails about a large payout
    BULK_PAYOUTS = "payout.bulk"
    BULK_NAMES = "payout.names"  # check the account names of a payout file
    SETTLE = "settle"  # settle a merchant's balance
    RETURN = "charge.return"  # start a refund of money to be returned to the customer
    REFUND = "refund"  # send a refund, or query its status
    NOTIFY = "notify"  # deliver a notification to its ipn_url
    ENDPOINT = "endpoint"  # deliver an event to an endpoint
    RESEND = "endpoint.resend"  # deliver events to an endpoint again
    RESET = "person.reset"  # write an email with a link for choosing a new password
    MAIL = "mail"
    RECEIPT_MAIL = "mail.receipt"
