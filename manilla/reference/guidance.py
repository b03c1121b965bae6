"""Guidance for API callers on each error code: its cause and its fix.

A test fails if an error code has no guidance, or if guidance is for an unknown code.
"""

from enum import StrEnum

import msgspec

from manilla.api.refusals import MethodNotAllowed, NotFound
from manilla.kit.errors import Refusal
from manilla.refunds.initiate import PaymentNotFound, RefundedMeanwhile
from manilla.refunds.postings import RefundBlocked, RefundNotCovered, RefundRefused
from manilla.transfers.refusals import PayoutErrorCode


class Repeat(StrEnum):
    """Whether the caller can retry the same request."""

    NO = "no, fix the request first"
    LATER = "yes, later"
    SAME_KEY = "yes, with the same Idempotency-Key"


class Guidance(msgspec.Struct, frozen=True):
    when: str
    do: str
    repeat: Repeat = Repeat.NO


GUIDANCE: dict[str, Guidance] = {
    "VALIDATION_FAILED": Guidance(
        "The body is not JSON, or a field or header is missing or malformed.",
        "Fix the fields in `errors`, which lists all invalid fields.",
    ),
    "INVALID_AMOUNT": Guidance(
        "Only the amount is invalid: it is too small, has too many decimals, is not a number, or "
        "is above a limit of your account.",
        "Send a JSON number, not a string, with no more decimals than the currency has.",
    ),
    "INVALID_ENVIRONMENT": Guidance(
        "`X-Environment` is neither `sandbox` nor `production`.",
        "Send `sandbox` or `production`, in lower case. If omitted, the default is `production`.",
    ),
    "INVALID_CREDENTIALS": Guidance(
        "A key is missing, unknown, revoked or expired, belongs to the other environment or is not "
        "allowed from your address, or the timestamp or signature is wrong.",
        "Check `errors`: it names the invalid header. Without `errors`, a key is wrong. Compare "
        "your signed string with the signature calculator under Authentication.",
    ),
    "MERCHANT_PENDING_APPROVAL": Guidance(
        "You called production before your business was approved.",
        "Use the sandbox until the approval. The dashboard's business profile shows your status.",
    ),
    "MERCHANT_SUSPENDED": Guidance(
        "Your account is rejected or disabled, in both environments.",
        "Contact the platform's support.",
    ),
    "INSUFFICIENT_PERMISSION": Guidance(
        "The API key is valid, but lacks the right that `required_right` names.",
        "Use a key that has the right. You can create keys in the dashboard, under Credentials.",
    ),
    "NOT_FOUND": Guidance(
        "There is no endpoint at this URL.", "Check the path; it starts with `/api/v1`."
    ),
    "METHOD_NOT_ALLOWED": Guidance(
        "The endpoint does not support this HTTP method.", "Use a method in the `Allow` header."
    ),
    "TRANSACTION_NOT_FOUND": Guidance(
        "You have no payment, payout, refund, dispute or split with this id in this environment.",
        "Check the id, and send the `X-Environment` in which it was created. Use "
        "verify-payment for payments, verify-payout for payouts and verify-refund for refunds.",
    ),
    "WEBHOOK_ENDPOINT_NOT_FOUND": Guidance(
        "You have no webhook endpoint with this id in this environment.",
        "Check the id, and send the `X-Environment` in which the endpoint was created.",
    ),
    "TOO_MANY_WEBHOOK_ENDPOINTS": Guidance(
        "You have the maximum number of webhook endpoints in this environment.",
        "Delete an endpoint that you no longer use, or add event types to an existing endpoint.",
    ),
    "WEBHOOK_ENDPOINT_DISABLED": Guidance(
        "The webhook endpoint is disabled, so events cannot be resent to it.",
        "Correct your server, enable the endpoint with `status`, and repeat the request.",
    ),
    "PAYMENT_LINK_NOT_FOUND": Guidance(
        "You have no payment link with this id in this environment.",
        "Check the id, and send the `X-Environment` in which the link was created.",
    ),
    "PAYMENT_LINK_USED": Guidance(
        "The payment link accepts a single payment, and a customer has already paid.",
        "Create another payment link.",
    ),
    "PAYMENT_ALREADY_PAID": Guidance(
        "The payment that you cancel is successful. The customer can have paid a moment ago.",
        "Fulfill the order, or refund the payment. Do not let the customer pay again.",
    ),
    "INVALID_CURRENCY": Guidance(
        "The currency is not enabled for your account.",
        "Use an enabled currency, in upper case, or ask the platform's support to enable it.",
    ),
    "WALLET_NOT_AVAILABLE": Guidance(
        "You have no active wallet in this currency.", "Contact the platform's support."
    ),
    "DUPLICATE_REFERENCE": Guidance(
        "The `ref_trx` was used before, or the `Idempotency-Key` or a customer's `reference` was "
        "used with another body.",
        "Do not use a new reference before you know the first transaction's result. The response "
        "contains its `trx_id` and `status`, and the `payment_url` of a payment that can still be "
        "paid. `duplicate_of` tells reference and key apart. To get the first response again, send "
        "the same key with the same body.",
    ),
    "insufficient_balance": Guidance(
        "Your wallet cannot cover the payout and its fee, the refund or, for a payment, the "
        "commission that you pay.",
        "Fund the wallet or send less. For payments, the customer can pay the commission: see API "
        "commission in the dashboard. Nothing was debited.",
    ),
    "refund_failed": Guidance(
        "The payment is not successful, or what is neither refunded nor disputed is lower than the "
        "refund. Or your account or payouts are disabled, or a wallet is inactive.",
        "The message contains the reason. Nothing was debited.",
    ),
    "INVOICE_NOT_FOUND": Guidance(
        "You have no invoice with this number. The sandbox has no invoices.",
        "List your invoices, which have their numbers.",
    ),
    "CUSTOMER_NOT_FOUND": Guidance(
        "You have no customer with this reference in this environment.",
        "Check the reference, and send the `X-Environment` in which the customer was created.",
    ),
    "HELD_FOR_REVIEW": Guidance(
        "In production, the money of this test transfer would be held for review.",
        "The message contains the reason. Change the account, the customer or the amount.",
    ),
    "ACCOUNT_NOT_FOUND": Guidance(
        "The customer has no account with this id.", "List the customer's accounts."
    ),
    "no_account_method": Guidance(
        "None of your methods, or one of the `method_codes`, cannot create account numbers.",
        "Ask the platform's support which methods of yours can.",
    ),
    "too_many_accounts": Guidance(
        "The customer has the maximum number of open accounts.",
        "Close an account that the customer no longer uses.",
    ),
    "payment_of_other_customer": Guidance(
        "A payment is attached to another customer already. Nothing was attached.",
        "Leave out this payment.",
    ),
    "customer_disabled": Guidance(
        "The customer is disabled, or its personal data was erased.",
        "Enable the customer. After an erasure, create one with another reference.",
    ),
    "WAY_NOT_FOUND": Guidance(
        "The customer has no saved way to pay with this id.",
        "List the customer's ways in the environment in which it was saved.",
    ),
    "way_unusable": Guidance(
        "The card or mandate has expired, was revoked or rejected, or its provider is not "
        "available. Or a mandate could not be created.",
        "Ask the customer to pay on checkout, with `save_for`. Nothing was charged.",
    ),
    "retry_limit": Guidance(
        "The card or mandate was declined too often within the platform's time limit.",
        "Charge it again later, or ask the customer to pay on checkout. Nothing was charged.",
    ),
    "split_invalid": Guidance(
        "The split is not possible: a receiver cannot receive the money, or the parts are larger "
        "than what remains of the payment.",
        "Correct each field that `errors` names. Nothing was created.",
    ),
    "dispute_closed": Guidance(
        "The dispute does not need a response: you have answered it, or it has ended.",
        "Get the dispute. Its `status` shows what has happened.",
    ),
    "dispute_deadline_passed": Guidance(
        "You did not answer the dispute before `respond_by`.",
        "Wait for the provider's decision, which is sent to you as an event. Contact the "
        "platform's support if you have evidence.",
    ),
    "evidence_incomplete": Guidance(
        "The provider needs evidence that is missing. Nothing was sent.",
        "Add each value that `errors` names with PUT evidence, and submit again.",
    ),
    "evidence_rejected": Guidance(
        "The provider has rejected this evidence. The message contains its words.",
        "Change the text, the fields or the files, and submit again before `respond_by`.",
    ),
    "BAD_DOCUMENT": Guidance(
        "The file is not a complete PDF, PNG or JPEG file, is larger than 5 MB, or the dispute "
        "has the maximum number of files.",
        "Send the file unchanged, in one of these formats. Its content counts, not its name.",
    ),
    "DOCUMENT_NOT_FOUND": Guidance(
        "The dispute has no file with this id.", "Get the dispute, which lists its files."
    ),
    "provider_insufficient_balance": Guidance(
        "The provider's balance is too low.",
        "Try again later or use another method. Nothing was debited.",
        Repeat.LATER,
    ),
    "kyc_required": Guidance(
        "The platform requires a verified business or a verified phone number before payouts.",
        "Complete your verification in the dashboard. The message names the missing part.",
    ),
    "merchant_payout_disabled": Guidance(
        "Payouts are disabled for you or for all merchants.", "Contact the platform's support."
    ),
    "payout_schedule_blocked": Guidance(
        "Payouts are not accepted on this weekday (Lagos time).",
        "Send the payout on one of the weekdays in the message.",
        Repeat.LATER,
    ),
    "gateway_not_configured": Guidance(
        "The method's provider is not configured or is disabled.",
        "Call payout-methods again and choose another method.",
    ),
    "invalid_beneficiary": Guidance(
        "The beneficiary is invalid: a field is missing or contradicts another, the bank code "
        "belongs to another provider, or the account cannot be verified.",
        "Fix the field that the message names. Each provider has its own bank codes: call "
        "bank-list with the `method_code` that you use.",
    ),
    "gateway_payout_failed": Guidance(
        "The transfer was rejected, failed or was reversed. verify-payout and the notification "
        "contain this code. The debit is refunded.",
        "Read the message, check the beneficiary, and send a new payout with a new `ref_trx`.",
    ),
    "payout_failed": Guidance(
        "The method does not exist or has another currency, the amount is outside its limits, or "
        "the provider does not allow the platform to send payouts.",
        "The message contains the reason.",
        Repeat.LATER,
    ),
    "RATE_LIMIT_EXCEEDED": Guidance(
        "You sent too many requests in a minute, or too many requests are waiting for events.",
        "Wait for `Retry-After` seconds. The `RateLimit` header contains the remaining quota.",
        Repeat.LATER,
    ),
    "SERVER_ERROR": Guidance(
        "There was an error on our side. It is not known whether the request succeeded.",
        "Retry with the same key and reference. If this fails, send support the `X-Request-Id`.",
        Repeat.SAME_KEY,
    ),
    "SERVICE_UNAVAILABLE": Guidance(
        "The platform is overloaded or its database is unavailable, and it is not known whether "
        "the request succeeded. Or the method's provider does not respond: nothing was debited.",
        "Retry with the same key and reference after `Retry-After` seconds.",
        Repeat.SAME_KEY,
    ),
}

# Guidance on why a payment failed: `error_code` in verify responses and notifications.
OUTCOMES: dict[str, Guidance] = {
    "INSUFFICIENT_FUNDS": Guidance(
        "The customer had insufficient funds at the last attempt, and the link has expired.",
        "Let the customer try again with a new payment, and accept a later success.",
    ),
    "PAYMENT_DECLINED": Guidance(
        "The provider declined the last attempt, and the link has expired.",
        "Let the customer try again with a new payment, and accept a later success.",
    ),
    "PAYMENT_CANCELED": Guidance(
        "The customer canceled the payment at checkout, or your server canceled it.",
        "Mark the order as canceled, but accept a later success: the customer may still have paid.",
    ),
    "EXPIRED_SESSION": Guidance(
        "The customer did not pay in time.",
        "Mark the order as expired, but accept a later success: a bank transfer can arrive late.",
    ),
}

# Guidance on why a payout failed after the debit: `error_code` in verify-payout and notifications.
PAYOUT_OUTCOMES: dict[PayoutErrorCode, Guidance] = {
    PayoutErrorCode.GATEWAY_PAYOUT_FAILED: Guidance(
        "The transfer was rejected or failed, or it was delivered and then reversed.",
        "Read the message, check the beneficiary, and send a new payout with a new `ref_trx`.",
    ),
    PayoutErrorCode.PROVIDER_INSUFFICIENT_BALANCE: Guidance(
        "The provider's balance was too low when the transfer was sent.",
        "Send a new payout later, or use another method.",
    ),
    PayoutErrorCode.INVALID_BENEFICIARY: Guidance(
        "The provider rejected the account when the transfer was sent.", "Check the beneficiary."
    ),
    PayoutErrorCode.PAYOUT_FAILED: Guidance(
        "The provider does not allow the platform to send payouts, or an administrator rejected "
        "the payout.",
        "Read the message, and contact the platform's support or use another method.",
    ),
}

# Guidance on errors when a merchant creates a refund in the dashboard.
REFUNDS: dict[type[Refusal], Guidance] = {
    RefundRefused: Guidance(
        "The payment is not successful, or its remaining amount is lower than the refund.",
        "The payment's page shows how much you can refund.",
    ),
    RefundNotCovered: Guidance(
        "Your wallet's balance is lower than the refund.",
        "Refund less, or wait until payments have increased the balance.",
    ),
    RefundBlocked: Guidance(
        "Your account or your payouts are disabled, or the wallet is inactive.",
        "The message contains the reason. Contact the platform's support.",
    ),
    RefundedMeanwhile: Guidance(
        "Someone refunded the payment after you opened the form.",
        "Reload the payment's page, and check whether your refund already exists.",
    ),
    PaymentNotFound: Guidance(
        "You have no payment with this id in this environment.",
        "Check the id, and switch to the environment in which the payment was created.",
    ),
}

# Errors for requests that match no endpoint.
OUTSIDE: tuple[type[Refusal], ...] = (NotFound, MethodNotAllowed)
