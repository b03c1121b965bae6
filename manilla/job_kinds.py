"""The kinds of jobs. Several packages and SQL statements use them."""

from enum import StrEnum


class JobKind(StrEnum):
    CHARGE = "charge"  # query a charge's status
    EXPIRE_PAYMENT = "payment.expire"
    SANDBOX_PAYMENT = "payment.sandbox"
    SAVED_WAY = "saved_way"  # query a mandate, or delete a revoked way at its provider
    WAY_CHARGE = "way.charge"  # send a charge of a saved way, and end it
    TRANSFER = "transfer"  # send a payout, or query its status
    SANDBOX_PAYOUT = "payout.sandbox"
    LARGE_PAYOUT = "payout.large"  # queue emails about a large payout
    BULK_PAYOUTS = "payout.bulk"
    BULK_NAMES = "payout.names"  # check the account names of a payout file
    SETTLE = "settle"  # settle a merchant's balance
    RETURN = "charge.return"  # start the refund of a customer's surplus or partial payment
    REFUND = "refund"  # send a refund, or query its status
    DISPUTE = "dispute"  # answer one dispute, query its status, and watch its deadline
    # Query a provider for its disputes, or for one dispute, or open one in the sandbox.
    DISPUTES = "disputes"
    INVOICES = "invoices"  # issue the fee invoices of a month
    # Create a customer's account at the provider, close it, or look for transfers into it.
    ACCOUNT = "account"
    # Query a provider for a transfer into a customer's account.
    ACCOUNT_TRANSFER = "account.transfer"
    SPLIT = "split"  # release a held share, or give the owner what a receiver has paid back
    NOTIFY = "notify"  # deliver a notification to the merchant's ipn_url
    ENDPOINT = "endpoint"  # deliver an event to a webhook endpoint
    RESEND = "endpoint.resend"  # resend events to a webhook endpoint
    RESET = "person.reset"  # queue an email with a password reset link
    MAIL = "mail"
    RECEIPT_MAIL = "mail.receipt"
    AUDIT_STREAM = "audit.stream"  # send new audit entries to a target
