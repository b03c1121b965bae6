"""Descriptions and validation rules of all API fields, by field name."""

from collections.abc import Mapping
from typing import Any

from manilla.customers.customer import IDENTITY_DIGITS, PHONE, REFERENCE
from manilla.disputes.dispute import TEXT_LENGTH_MAX
from manilla.merchants.rights import Right
from manilla.notify.events.kinds import EVENT_TYPES, PATTERNS
from manilla.payments.payment_links.link import LinkStatus

TRX_ID_PATTERN = "^TXN[0-9A-HJKMNP-TV-Z]{30}$"
ACCOUNT_ID_PATTERN = "^ACC[0-9A-HJKMNP-TV-Z]{30}$"
CUSTOMER_PATTERN = f"^{REFERENCE.pattern}$"
DISPUTE_ID_PATTERN = "^DSP[0-9A-HJKMNP-TV-Z]{30}$"
INVOICE_NUMBER_PATTERN = r"^[A-Z0-9]{1,12}[0-9]{6,18}(\.pdf|\.xml)?$"
WAY_ID_PATTERN = "^WAY[0-9A-HJKMNP-TV-Z]{30}$"
ENDPOINT_ID_PATTERN = "^we_[0-9A-HJKMNP-TV-Z]{30}$"
EVENT_ID_PATTERN = "^msg_[0-9A-HJKMNP-TV-Z]{32}$"
LINK_ID_PATTERN = "^PL[0-9A-HJKMNP-TV-Z]{29}$"
TIMESTAMP_PATTERN = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z$"
ADDRESS = {"format": "uri", "pattern": r"^https?://[^\s\\]+$"}
CURRENCY = {"pattern": "^[A-Za-z]{3}$", "minLength": 3, "maxLength": 3}
BEARER = {"enum": ["customer", "merchant"]}
AMOUNT_BELOW = 10**15
PAYMENT_BELOW = 10**14  # exclusive maximum of a payment in a currency with two decimals

LINK_STATUSES = [str(status) for status in LinkStatus]

FieldDescription = Mapping[str, Any]


def _field(description: str, **rules: Any) -> FieldDescription:
    return {"description": description, **rules}


def _amount(description: str) -> FieldDescription:
    return _field(f"{description} In major units, exact to the currency's minor unit.")


def _or_empty(**rules: Any) -> FieldDescription:
    """Returns the rules for an optional text field, in which empty text counts as absent."""
    return {"anyOf": [rules, {"maxLength": 0}]}


def _id(description: str) -> FieldDescription:
    return _field(description, pattern=TRX_ID_PATTERN)


def _time(description: str) -> FieldDescription:
    return _field(
        f"{description} ISO 8601, UTC, with microseconds.",
        format="date-time",
        pattern=TIMESTAMP_PATTERN,
    )


def _moment(description: str) -> FieldDescription:
    return _field(f"{description} RFC 3339 with any offset, such as `2026-01-31T12:00:00+01:00`.")


_IDENTITY = _or_empty(pattern=f"^[0-9]{{{IDENTITY_DIGITS}}}$")

# Maps field names to descriptions. A key `Schema.field` applies only to that schema.
# A struct can also describe its fields itself: see `payouts/fields.py`.
FIELDS: Mapping[str, FieldDescription] = {
    # errors
    "error": _field("A message for people. The text may change, so use `error_code` in your code."),
    "error_code": _field("A stable code for error handling."),
    "errors": _field("Maps the name of each invalid field or header to an error message."),
    "DuplicateError.trx_id": _id("The transaction that has this reference."),
    "required_right": _field(
        "The right that the API key lacks, if the error is `INSUFFICIENT_PERMISSION`.",
        enum=[str(right) for right in Right],
    ),
    "DuplicateError.duplicate_of": _field(
        "What was used before: the `ref_trx`, or the `Idempotency-Key` with another body.",
        enum=["ref_trx", "idempotency_key"],
    ),
    "DuplicateError.payment_url": _field(
        "The first payment's URL, if it can still be paid and has the same amount and currency.",
        format="uri",
    ),
    "PaymentSession.expires_at": _time("When `payment_url` stops working."),
    "DuplicateError.status": _field("The status of the transaction that has this reference."),
    # lists
    "limit": _field("The maximum number of items on a page, at most 100. Defaults to 20."),
    "cursor": _field(
        "`next_cursor` of the previous page. Send it with the same filters. Omit it for the first "
        "page.",
        maxLength=600,
    ),
    "from": _moment("Only items created at this time or later. It must not be after `to`."),
    "to": _moment("Only items created before this time."),
    "PaymentsQuery.status": _field("Only payments with this status."),
    "PaymentsQuery.ref_trx": _field("Only the payment with this reference.", maxLength=60),
    "PayoutsQuery.status": _field("Only payouts with this status."),
    "PayoutsQuery.ref_trx": _field("Only the payout with this reference.", maxLength=60),
    "PaymentList.data": _field("The payments, newest first."),
    "PayoutList.data": _field("The payouts, newest first."),
    "RefundsQuery.status": _field("Only refunds with this status."),
    "RefundsQuery.ref_trx": _field("Only the refund with this reference.", maxLength=60),
    "RefundList.data": _field("The refunds, newest first."),
    "BalanceTransactionsQuery.ref_trx": _field(
        "Only lines of transactions with this reference.", maxLength=60
    ),
    "BalanceTransactionsQuery.currency_code": _field(
        "Only the wallet in this currency.", pattern="^([A-Za-z]{3})?$", maxLength=3
    ),
    "BalanceTransactionList.data": _field("The lines of the statement, newest first."),
    # balances
    "Balance.environment": _field(
        "The environment of the wallets.", enum=["sandbox", "production"]
    ),
    "balances": _field("One balance for each wallet."),
    "available": _amount("The amount that you can pay out or refund now."),
    "in_flight": _amount(
        "The total `payable_amount` of your open payouts. It is not part of `available`."
    ),
    "withheld": _amount("The amount that open disputes withhold. It is not part of `available`."),
    "WalletBalance.short": _amount(
        "What you owe because the wallet could not cover a dispute. Later credits pay it first."
    ),
    "kind": _field(
        "The type of change: `payment`, `commission`, `payout`, `payout_refund` (a failed "
        "payout), `refund`, `refund_returned` (a failed refund), `withheld` (for a "
        "dispute), "
        "`dispute_fee`, `commission_returned`, `short_paid` (a credit paid what you owed), "
        "`funding`, `adjustment`, or another value for a correction by the operator."
    ),
    "BalanceTransaction.trx_id": _field("The id of the transaction, or of its commission."),
    "BalanceTransaction.ref_trx": _field(
        "Your reference for the transaction, or null if it has none, for example for `funding`."
    ),
    "BalanceTransaction.amount": _amount("The change, which is negative if money left the wallet."),
    "balance_after": _amount("The wallet's balance after the change."),
    "BalanceTransaction.currency_code": _field("The wallet's currency.", **CURRENCY),
    "BalanceTransaction.created_at": _time("When the balance changed."),
    "WalletBalance.currency_code": _field("The wallet's currency.", **CURRENCY),
    "next_cursor": _field(
        "The `cursor` of the next page, or null on the last page. A page can have fewer items than "
        "`limit`, or no items, although there is a next page."
    ),
    # references and parties
    "trx_id": _id("The transaction's id."),
    "ref_trx": _field(
        "Your reference. It must be unique among your transactions of the same type.",
        minLength=1,
        maxLength=60,
        pattern=r"\S",
    ),
    "merchant_id": _field("The merchant's id."),
    "merchant_name": _field("The merchant's name."),
    "customer_name": _field("The customer's name.", maxLength=100),
    "customer_email": _field("The customer's email address, as sent.", maxLength=100),
    "PaymentRequest.customer_email": _field(
        "The customer's email address. Empty text counts as absent.",
        **_or_empty(format="email"),
        maxLength=100,
    ),
    "customer": _field("The customer, as sent by the merchant."),
    "Customer.name": _field("The customer's name, as sent."),
    "Customer.email": _field("The customer's email address, as sent."),
    "description": _field("The merchant's description."),
    "environment": _field("The environment of the transaction.", enum=["sandbox", "production"]),
    "is_sandbox": _field("Whether the transaction is in the sandbox, where no real money moves."),
    # addresses
    "payment_url": _field(
        "The hosted checkout URL. Redirect the customer to this URL without changing it: it is "
        "signed and expires. The part of its path after `/checkout/` is the payment's `trx_id`.",
        format="uri",
    ),
    "ipn_url": _field("The URL of your server that receives notifications.", **ADDRESS),
    "success_redirect": _field(
        "The URL to which the customer is redirected after success.", **ADDRESS
    ),
    "LegacyPaymentRequest.success_redirect": _field(
        "The URL to which the customer is redirected after success.", **_or_empty(**ADDRESS)
    ),
    "LegacyPaymentRequest.cancel_redirect": _field(
        "The URL to which the customer is redirected after canceling.", **_or_empty(**ADDRESS)
    ),
    "cancel_redirect": _field(
        "The URL to which the customer is redirected if the payment is not successful.",
        **ADDRESS,
    ),
    # money
    "payment_amount": _field(
        "The payment amount in major units, from 1.00 to 99999999999999.99. A JSON "
        "number with no more decimals than the currency has.",
        minimum=1,
        exclusiveMaximum=PAYMENT_BELOW,
    ),
    "currency_code": _field(
        "An ISO 4217 code, enabled for the merchant and with an active wallet.", **CURRENCY
    ),
    "currency": _field("An ISO 4217 code.", **CURRENCY),
    "amount": _amount("The amount without commission or fee."),
    "base_amount": _amount("The payment's amount without commission."),
    "fee": _amount("The payment's commission, or the payout's fee."),
    "net_amount": _amount("The amount credited to the wallet, or received by the beneficiary."),
    "payout_amount": _amount("The amount that the beneficiary receives."),
    "PayoutRequest.payout_amount": _field(
        "The amount that the beneficiary receives, from `min_withdraw` to `max_withdraw`. A JSON "
        "number with no more decimals than the currency has.",
        exclusiveMinimum=0,
        exclusiveMaximum=AMOUNT_BELOW,
    ),
    "payable_amount": _amount("The amount debited from the wallet: `payout_amount` plus `fee`."),
    "refunded_amount": _amount("The amount returned to the wallet: the payout's amount plus fee."),
    "refund_amount": _amount("The amount refunded to the customer."),
    "RefundRequest.trx_id": _field("The `trx_id` of the successful payment."),
    "RefundRequest.amount": _field(
        "The amount to refund, at most the amount that is not refunded yet. A JSON number with no "
        "more decimals than the currency has. If omitted, the remaining amount is refunded.",
        exclusiveMinimum=0,
    ),
    "RefundRequest.reason": _field(
        "The reason for the refund. Some providers show it to the customer.", maxLength=200
    ),
    "reason": _field("The reason for the refund, as sent, or null if you sent no reason."),
    "RefundInfo.amount": _amount("The amount that the customer gets back."),
    "payment_trx_id": _id("The `trx_id` of the payment."),
    "refund_trx_id": _id("The refund's transaction id."),
    # commission
    "commission": _field("The commission, and who paid it."),
    "api_fee_bearer": _field("Who pays the commission.", **BEARER),
    "commission_bearer": _field("Who pays the commission.", **BEARER),
    "api_fee_percent": _field("The commission percentage, set by the administrator."),
    "api_commission_fee": _amount("The commission."),
    "commission_fee": _amount("The commission."),
    "customer_pays": _amount("The amount that the customer pays on checkout."),
    "merchant_receives": _amount("The amount credited to the merchant's wallet on success."),
    "customer_paid": _amount("The amount that the customer paid, or 0 if there was no payment."),
    "merchant_received": _amount("The amount credited to the wallet, or 0 if there is no payment."),
    "amount_received": _amount(
        "The amount that the customer has paid, if it was not the amount due. The difference is "
        "refunded to the customer, and is not part of any other amount."
    ),
    "commission_trx_id": _id("The commission's transaction id, or null if there is no commission."),
    # disputes
    "DisputesQuery.status": _field("Only disputes with this status."),
    "DisputesQuery.ref_trx": _field(
        "Only disputes of the payment with this reference.", maxLength=60
    ),
    "DisputesQuery.trx_id": _field("Only disputes of the payment with this id."),
    "respond_before": _moment("Only disputes that need a response before this time."),
    "DisputeList.data": _field("The disputes, newest first."),
    "DisputeInfo.id": _field("The dispute's id.", pattern=DISPUTE_ID_PATTERN),
    "DisputeInfo.trx_id": _field(
        "The same as `id`, because every notification has a `trx_id`.", pattern=DISPUTE_ID_PATTERN
    ),
    "DisputeInfo.payment_trx_id": _id("The disputed payment."),
    "DisputeInfo.ref_trx": _field("Your reference for the disputed payment."),
    "DisputeInfo.amount": _amount("The disputed amount. It can be a part of the payment."),
    "DisputeInfo.stage": _field("The provider's word for the stage, or empty."),
    "DisputeInfo.category": _field("The provider's word for the type of dispute, or empty."),
    "DisputeInfo.reason": _field("Why the customer disputes the payment, as the provider says it."),
    "provider_reference": _field("The provider's id of the dispute."),
    "opened_at": _time("When the dispute was opened at the provider."),
    "respond_by": _time("The deadline for your response."),
    "missed": _field(
        "Whether the deadline has passed without a response. The dispute is not lost until the "
        "provider says so."
    ),
    "DisputeInfo.withheld": _amount("The amount that is withheld until the dispute ends."),
    "DisputeInfo.short": _amount(
        "The part that your wallet could not cover when it was withheld or taken. You owed it from "
        "then on: the balance shows what you still owe."
    ),
    "DisputeInfo.fee": _amount("The provider's fee, if you bear one."),
    "evidence": _field("Your evidence."),
    "EvidenceInfo.text": _field("What you write to the provider."),
    "EvidenceInfo.fields": _field("Values that the provider asks for, by name."),
    "files": _field("The files of the evidence."),
    "EvidenceFileInfo.id": _field("The file's id, which is unique in its dispute."),
    "EvidenceFileInfo.name": _field("The file's name."),
    "size": _field("The file's size in bytes."),
    "rejection": _field(
        "The provider's words if it has rejected your evidence, otherwise empty. You can change "
        "the evidence and submit it again."
    ),
    "outcome_at": _time("When the dispute ended, or null if it has not."),
    "DisputeInfo.environment": _field(
        "The environment of the payment.", enum=["sandbox", "production"]
    ),
    "DisputeAcceptanceRequest.amount": _amount(
        "What you accept. If omitted, the whole disputed amount."
    ),
    "DisputeEvidenceRequest.text": _field(
        "What you write to the provider. It can have several lines.", maxLength=TEXT_LENGTH_MAX
    ),
    "DisputeEvidenceRequest.fields": _field(
        "Values that the provider asks for, by name. If one is missing, submit names it. They "
        "replace all earlier values."
    ),
    "DeletedFile.id": _field("The id of the file that was removed."),
    # invoices
    "InvoicesQuery.month": _field("Only invoices of this month, such as 2026-12."),
    "InvoicesQuery.currency_code": _field("Only invoices in this currency."),
    "InvoiceList.data": _field("The invoices and credit notes, newest first."),
    "InvoiceInfo.number": _field("The number, which is unique."),
    "InvoiceInfo.type": _field(
        "`invoice`, or `credit_note`: more was returned to you than charged, or it cancels an "
        "invoice. The amounts of a credit note are what you get.",
        enum=["invoice", "credit_note"],
    ),
    "InvoiceInfo.month": _field("The month of the fees, in Africa/Lagos."),
    "InvoiceInfo.fee": _amount("The fees without taxes."),
    "InvoiceInfo.taxes": _field("The sum of each tax."),
    "InvoiceTax.name": _field("The tax's name."),
    "InvoiceTax.amount": _amount("The sum of the tax."),
    "InvoiceInfo.total": _amount("Fees and taxes. They were deducted already: nothing is due."),
    "InvoiceInfo.lines": _field("The fees and taxes by their type."),
    "InvoiceLineInfo.account": _field("`commission`, `payout_fee`, or `tax:` and a tax's name."),
    "InvoiceLineInfo.kind": _field("What was charged for, such as `payment` or `payout`."),
    "InvoiceLineInfo.title": _field("The line's text on the invoice."),
    "InvoiceLineInfo.count": _field("How many charges and returns the amount contains."),
    "InvoiceLineInfo.amount": _amount("The amount, which is negative if it was returned."),
    "supplier": _field("The platform's operator."),
    "InvoiceInfo.customer": _field("Your business, when the invoice was issued."),
    "InvoiceParty.name": _field("The legal name."),
    "InvoiceParty.address": _field("The address, or empty."),
    "InvoiceParty.tax_id": _field("The tax identification number, or empty."),
    "InvoiceParty.email": _field("The email address."),
    "corrects": _field("The number of the invoice that this one cancels, or null."),
    "InvoiceInfo.reason": _field("Why an invoice was cancelled, or null."),
    "authority_reference": _field("The tax authority's reference, or null."),
    "authority_qr": _field("The content of the tax authority's QR code, or null."),
    "issued_at": _time("When it was issued."),
    # customers
    **{
        f"{schema}.{name}": description
        for schema in ("CustomerRequest", "CustomerEditRequest", "CustomerInfo")
        for name, description in {
            "reference": _field("Your reference of the customer.", pattern=CUSTOMER_PATTERN),
            "id": _field("The customer's id.", pattern="^CUS[0-9A-HJKMNP-TV-Z]{30}$"),
            "name": _field("The customer's name, as the bank has it.", minLength=1, maxLength=100),
            "email": _field("The customer's email address.", **_or_empty(format="email")),
            "phone": _field(
                "The customer's phone number.", **_or_empty(pattern=f"^{PHONE.pattern}$")
            ),
            "bvn": _field("The customer's BVN. It is encrypted, and never returned.", **_IDENTITY),
            "nin": _field("The customer's NIN. It is encrypted, and never returned.", **_IDENTITY),
            "bvn_given": _field("Whether you have sent a BVN."),
            "nin_given": _field("Whether you have sent a NIN."),
            "ipn_url": _field(
                "The URL that receives notifications of transfers into the customer's accounts. "
                "Without it, only your webhook endpoints receive them.",
                **_or_empty(**ADDRESS),
            ),
            "created_at": _time("When the customer was created."),
            "updated_at": _time("When the customer was last changed."),
            "environment": _field(
                "The environment of the customer.", enum=["sandbox", "production"]
            ),
        }.items()
    },
    **{
        f"{schema}.{name}": description
        for schema in ("AccountInfo", "AccountNoticeData", "AccountsRequest", "TestTransferRequest")
        for name, description in {
            "id": _field("The account's id.", pattern=ACCOUNT_ID_PATTERN),
            "trx_id": _field("The same as `id`.", pattern=ACCOUNT_ID_PATTERN),
            "account_id": _field("The account's id.", pattern=ACCOUNT_ID_PATTERN),
            "bank_name": _field("The account's bank. Null until the account is active."),
            "bank_code": _field("The bank's code at the provider, if it reports one."),
            "account_number": _field("The number that the customer pays into."),
            "account_name": _field("The account's name, which the customer's bank shows."),
            "method_code": _field("The method that the account was requested with."),
            "customer_reference": _field("Your reference of the customer."),
            "created_at": _time("When the account was requested."),
            "environment": _field(
                "The environment of the account.", enum=["sandbox", "production"]
            ),
            "error_code": _field(
                "Why the account failed: `account_details_rejected`, `account_limit_reached` or "
                "`accounts_not_enabled`. Omitted otherwise."
            ),
            "error": _field("What you can do if the account failed. Omitted otherwise."),
            "method_codes": _field("The methods to use, each of another provider."),
            "count": _field("How many accounts to request, at different providers.", maximum=2),
            "ipn_url": _field(
                "The URL that receives notifications of transfers. By default, the customer's.",
                **_or_empty(**ADDRESS),
            ),
            "amount": _amount("The amount to send."),
            "payer_name": _field("The sender's name.", maxLength=100),
        }.items()
    },
    "AccountList.data": _field("The accounts, oldest first."),
    "trx_ids": _field("The payments to attach.", minItems=1, maxItems=100),
    "attached": _field("How many of the payments were not attached before."),
    # saved ways to pay
    "PaymentRequest.save_for": _field(
        "Your reference of a customer. Checkout then offers to save the customer's card, which you "
        "can charge again.",
        pattern=CUSTOMER_PATTERN,
    ),
    "PaymentLinkRequest.customer_reference": _field(
        "Your reference of a customer. The page also shows the customer's account numbers, and "
        "payments with the link belong to the customer. Not possible with `single_use`.",
        pattern=CUSTOMER_PATTERN,
    ),
    "way_id": _field("The id of the customer's saved way to pay.", pattern=WAY_ID_PATTERN),
    **{
        f"{schema}.id": _field("The id of the saved way to pay.", pattern=WAY_ID_PATTERN)
        for schema in ("WayInfo", "PaymentWay")
    },
    "WayInfo.currency": _field("The currency of charges."),
    "WayInfo.consented_at": _time("When the customer approved later charges, or null."),
    "WayInfo.created_at": _time("When saving was requested."),
    "WayList.data": _field("The saved ways to pay, newest first."),
    "PaymentWay.kind": _field("`card` or `mandate`."),
    "PaymentWay.label": _field("What the customer recognizes: brand or bank, last digits."),
    "PaymentWay.expires": _field("The card's last month, as `2031-12`, or null."),
    "MandateRequest.amount_max": _amount("The most that all debits together can take."),
    "MandateRequest.bank_code": _field(
        "The bank of the customer's account, as in initiate-payout.", maxLength=60
    ),
    "MandateRequest.account_number": _field(
        "The customer's account number.", pattern="^[0-9]{10}$"
    ),
    "customer_address": _field("The customer's postal address.", maxLength=200),
    "MandateRequest.description": _field(
        "What the mandate is for, which the customer sees.", minLength=3, maxLength=100
    ),
    "end_date": _field("The mandate's last day, such as `2028-01-31`.", format="date"),
    "redirect_url": _field("Where the customer continues after confirming.", **ADDRESS),
    "CustomersQuery.status": _field("Only customers with this status."),
    "CustomersQuery.search": _field("What you know about the customer.", maxLength=200),
    "CustomerList.data": _field("The customers, newest first."),
    # events and webhook endpoints
    "EventsQuery.since": _field(
        "List events from this time (RFC 3339) on, or after the event with this id. To continue, "
        "send the id of the last event that you have processed. No event is skipped."
    ),
    "EventsQuery.type": _field("Only events of this type.", enum=list(EVENT_TYPES)),
    "EventsQuery.wait": _field(
        "If there are no events, wait up to this many seconds, at most 30. Defaults to 0."
    ),
    "EventItem.id": _field(
        "The event's id: the `webhook-id` of its notification.", pattern=EVENT_ID_PATTERN
    ),
    "EventItem.type": _field("The event's type.", enum=list(EVENT_TYPES)),
    "EventItem.ref_trx": _field("Your reference for the transaction."),
    "EventItem.trx_id": _id("The transaction's id. For a refund, the payment's id."),
    "EventItem.created_at": _time("When the status changed."),
    "EventItem.body": _field(
        "The exact body of the notification to `ipn_url`, even if there is no `ipn_url`. It is a "
        "string, so you can verify a signature of it."
    ),
    "EventList.data": _field("The events, oldest first."),
    "EventList.next_cursor": _field(
        "The `cursor` of the next page, or null if there are no more events yet. To continue "
        "later, send the last event's id as `since`."
    ),
    **{
        f"{schema}.{name}": description
        for schema in ("WebhookEndpointRequest", "WebhookEndpointChangeRequest")
        for name, description in {
            "url": _field("The URL of your server that receives events.", **ADDRESS),
            "events": _field(
                "The event types to receive: single types, a group (`payment.*`), or all (`*`).",
                minItems=1,
                items={"type": "string", "enum": list(PATTERNS)},
            ),
            "description": _field("A note for you, on one line.", maxLength=200),
            "status": _field(
                "`disabled` stops deliveries, and `enabled` starts them again.",
                enum=["enabled", "disabled"],
            ),
        }.items()
    },
    **{
        f"{schema}.id": _field("The webhook endpoint's id.", pattern=ENDPOINT_ID_PATTERN)
        for schema in (
            *("EndpointSecret", "WebhookEndpointItem", "DeletedEndpoint", "AcceptedResend"),
        )
    },
    "secret": _field(
        "The secret that verifies the messages to this endpoint. It is shown only once.",
        pattern="^whsec_[A-Za-z0-9+/=]+$",
    ),
    "WebhookEndpointItem.url": _field("The URL that receives events.", format="uri"),
    "WebhookEndpointItem.events": _field("The event types that the endpoint receives."),
    "WebhookEndpointItem.description": _field("Your note."),
    "WebhookEndpointItem.status": _field(
        "Whether the endpoint receives events.", enum=["enabled", "disabled"]
    ),
    "disabled_reason": _field("The reason why the endpoint is disabled, or null if it is enabled."),
    "failing_since": _time("The time of the first failed attempt after the last success, or null."),
    "WebhookEndpointItem.created_at": _time("When the endpoint was created."),
    "WebhookEndpointList.data": _field("The webhook endpoints, newest first."),
    "deleted": _field("Always true: the object no longer exists.", enum=[True]),
    "EndpointTestResult.id": _field("The test event's id.", pattern=EVENT_ID_PATTERN),
    "EndpointTestResult.status": _field(
        "`delivered`: your server responded with 2xx. `failed`: it did not. `pending`: not known.",
        enum=["delivered", "failed", "pending"],
    ),
    "http_status": _field("The HTTP status of your server's response, or null if there was none."),
    "milliseconds": _field("The duration of the attempt, or null if there was no attempt yet."),
    "EndpointTestResult.error": _field("The error, or null if the event was delivered."),
    "overlap_minutes": _field(
        "How many minutes the old secret also signs messages. Defaults to 1440, at most 10080."
    ),
    "ResendEventsRequest.since": _field(
        "Resend events from this time on (RFC 3339).", format="date-time"
    ),
    "include_delivered": _field("Whether to also resend events that the endpoint has received."),
    "AcceptedResend.since": _time("The time from which events are resent."),
    "AcceptedResend.status": _field("The events are being resent.", enum=["accepted"]),
    # payment links
    "title": _field("What the customer pays for, on one line.", minLength=1, pattern=r"\S"),
    **{
        f"{schema}.{name}": description
        for schema in ("PaymentLinkRequest", "PaymentLinkEditRequest")
        for name, description in {
            "amount": _field(
                "The amount in major units, with no more decimals than the currency has. If "
                "omitted, the customer enters an amount.",
                minimum=1,
                exclusiveMaximum=PAYMENT_BELOW,
            ),
            "description": _field(
                "The description that the page shows. It can have several lines.", maxLength=2000
            ),
            "expires_at": _field(
                "The time at which the link expires, with an offset (RFC 3339). It must be in the "
                "future and within 10 years.",
                format="date-time",
            ),
            "success_redirect": _field(
                "The URL to which the customer is redirected after success.", **_or_empty(**ADDRESS)
            ),
        }.items()
    },
    "single_use": _field("Whether the link accepts only one successful payment."),
    "CreatedPaymentLink.id": _field("The link's id.", pattern=LINK_ID_PATTERN),
    "PaymentLinkItem.id": _field("The link's id.", pattern=LINK_ID_PATTERN),
    "url": _field("The URL to share. Add `/qr.svg` or `/qr.png` to get its QR code.", format="uri"),
    "CreatedPaymentLink.status": _field("The link's status.", enum=LINK_STATUSES),
    "PaymentLinkItem.status": _field(
        "The link's status. `used` means that a single-use link was paid.", enum=LINK_STATUSES
    ),
    "PaymentLinkQuery.status": _field("Only links with this status.", enum=LINK_STATUSES),
    "PaymentLinkItem.amount": _amount("The amount, or null if the customer enters an amount."),
    "PaymentLinkItem.expires_at": _time("When the link expires, or null if it does not expire."),
    "PaymentLinkItem.created_at": _time("When the link was created."),
    "paid_count": _field("The number of successful payments."),
    "paid_amount": _amount("The sum of the successful payments, without refunds."),
    "PaymentLinkList.data": _field("The payment links, newest first."),
    # gateways and methods
    "allow_payment_methods": _field(
        "The keywords that filter the gateways. Empty if you sent none."
    ),
    "merchant_payment_methods_restricted": _field(
        "Whether the merchant selected specific gateways in Payment Gateway Controls."
    ),
    "merchant_payment_method_ids": _field("The ids of the gateways that checkout can offer."),
    "merchant_payment_method_codes": _field("The codes of the gateways that checkout can offer."),
    "methods": _field("The available methods, in priority order."),
    "WithdrawalMethod.id": _field("The `withdraw_method_id` for initiate-payout."),
    "WithdrawalMethod.name": _field("The method's name."),
    "WithdrawalMethod.type": _field(
        "`auto`: sent by a provider immediately; `manual`: processed by an administrator.",
        enum=["auto", "manual"],
    ),
    "method_code": _field("The method's code, which is the same on every installation."),
    "min_withdraw": _amount("The minimum `payout_amount`."),
    "max_withdraw": _amount("The maximum `payout_amount`, or null if unlimited."),
    "fields": _field("The beneficiary fields of this method."),
    "BeneficiaryField.name": _field("The key in `beneficiary`."),
    "BeneficiaryField.type": _field("The form control to use.", enum=["select", "text"]),
    "BeneficiaryField.validation": _field(
        "Whether the field is required.", enum=["required", "nullable"]
    ),
    "BeneficiaryField.label": _field("The label for a form."),
    "BeneficiaryField.api_auto_resolved": _field(
        "True if the field may be omitted from `beneficiary`."
    ),
    "withdraw_method_id": _field("The method's `id` from payout-methods."),
    "withdraw_method": _field("The method's name."),
    "withdraw_account_id": _field(
        "The id of a saved account. Required if `beneficiary` is omitted."
    ),
    "beneficiary": _field(
        "The beneficiary: values for the method's `fields`. For automatic NGN methods, send "
        "`bank_code` and `account_number`, and we look up the name. Required if "
        "`withdraw_account_id` is omitted."
    ),
    "processing_type": _field(
        "`auto` for automatic methods, otherwise `manual`.", enum=["auto", "manual"]
    ),
    "api_merchant_payout": _field("True if the payout was created through this API."),
    # banks
    "provider": _field("The provider that uses these bank codes."),
    "banks": _field("The banks that this provider supports."),
    "bank_code": _field("The provider's code for the bank."),
    "bank_name": _field("The bank's name."),
    # sites
    "site_name": _field("The site's name."),
    "site_logo": _field("The URL of the site's logo.", format="uri"),
    "site_url": _field("The site's URL.", format="uri"),
    "gateway_name": _field("The gateway's name."),
    "gateway_description": _field("One sentence about the gateway."),
    "features": _field("Labels for your own pages."),
    "ssl_secured": _field("The label for encrypted connections."),
    "instant_processing": _field("The label for instant processing."),
    "global_support": _field("The label for support."),
    "mobile_ready": _field("The label for mobile support."),
    "environments": _field("Descriptions of the two environments."),
    "production": _field("The description of production."),
    "sandbox": _field("The description of the sandbox."),
    "api_version": _field("The version of the API.", enum=["1.0"]),
    "SiteInfo.status": _field("The site's status.", enum=["active"]),
    # states
    **{
        f"{schema}.status": _field(
            "The initial status. The result follows in a notification.", enum=["pending"]
        )
        for schema in ("InitiatedPayout", "PayoutInfo", "InitiatedRefund", "RefundInfo")
    },
    "info": _field("The details of the transaction."),
    "message": _field("The status as a message for people."),
    "created_at": _time("When the transaction was created."),
    "updated_at": _time("When the status last changed."),
    # notifications
    "data": _field("The transaction."),
    "timestamp": _field("The time of the event, in Unix seconds."),
}


def describe(schema: str, field: str) -> FieldDescription:
    return FIELDS.get(f"{schema}.{field}") or FIELDS.get(field) or {}


# Descriptions of schemas whose struct has no docstring.
SCHEMAS: Mapping[str, str] = {
    "Error": "The reason why a request was rejected.",
    "DuplicateError": "The error for a reference that another transaction already has.",
    "MissingRightError": "The error for an API key that lacks a right.",
    "PaymentRequest": "A new payment. Unknown fields are ignored.",
    "LegacyPaymentRequest": "A new payment through the legacy API.",
    "PayoutRequest": "A new payout. Unknown fields are ignored.",
    "EventList": "A page of events.",
    "EventItem": "A status change of a transaction.",
    "WebhookEndpointRequest": "A new webhook endpoint. Unknown fields are ignored.",
    "WebhookEndpointChangeRequest": "The fields to change. Unknown fields are ignored.",
    "RotateSecretRequest": "The time for which the old secret stays valid.",
    "ResendEventsRequest": "The events to resend.",
    "EndpointSecret": "The webhook endpoint's id and its new secret.",
    "WebhookEndpointItem": "A webhook endpoint.",
    "WebhookEndpointList": "A page of webhook endpoints.",
    "DeletedEndpoint": "The webhook endpoint that was deleted.",
    "EndpointTestResult": "The webhook endpoint's response to a test event.",
    "AcceptedResend": "The webhook endpoint to which events are resent.",
    "PaymentLinkRequest": "A new payment link. Unknown fields are ignored.",
    "PaymentLinkEditRequest": "The fields to change. Unknown fields are ignored.",
    "CreatedPaymentLink": "The payment link's id, URL and status.",
    "PaymentLinkItem": "A payment link, with the amount paid through it.",
    "PaymentLinkList": "A page of payment links.",
    "PaymentSession": "A hosted checkout session.",
    "PaymentInfo": "The payment's details and amounts.",
    "VerifiedPayment": "A completed payment.",
    "UnfinishedPayment": "A pending or failed payment.",
    "CanceledPayment": "A payment that can no longer be paid on checkout.",
    "PaymentList": "A page of payments.",
    "RefundRequest": "A new refund. Unknown fields are ignored.",
    "InitiatedRefund": "An accepted refund. The wallet is debited.",
    "RefundInfo": "The refund's details.",
    "VerifiedRefund": "A refund.",
    "RefundList": "A page of refunds.",
    "DisputeAcceptanceRequest": "What you accept. Unknown fields are ignored.",
    "DisputeEvidenceRequest": "The evidence to save. Unknown fields are ignored.",
    "CustomerRequest": "The customer to create. Unknown fields are ignored.",
    "CustomerEditRequest": "The fields to change. Unknown fields are ignored.",
    "CustomerInfo": "A customer.",
    "WayChargeRequest": "The charge. Unknown fields are ignored.",
    "MandateRequest": "The mandate to ask for. Unknown fields are ignored.",
    "WayList": "A customer's saved ways to pay.",
    "CustomerList": "A page of customers.",
    "AccountsRequest": "The accounts to request. Unknown fields are ignored.",
    "AccountInfo": "A permanent account of a customer.",
    "AccountList": "A customer's accounts.",
    "TestTransferRequest": "The test transfer. Unknown fields are ignored.",
    "TestTransferInfo": "The payment of the test transfer.",
    "AttachPaymentsRequest": "The payments to attach. Unknown fields are ignored.",
    "AttachedPayments": "The result.",
    "TransferPayer": "Who sent a transfer into a customer's account.",
    "DisputeInfo": "A dispute.",
    "DisputeList": "A page of disputes.",
    "InvoiceInfo": "An invoice or a credit note.",
    "InvoiceList": "A page of invoices.",
    "InvoiceTax": "A tax on an invoice.",
    "InvoiceLineInfo": "A line of an invoice.",
    "InvoiceParty": "Who issued an invoice, or to whom.",
    "EvidenceInfo": "The evidence for your answer.",
    "EvidenceFileInfo": "A file of the evidence.",
    "DeletedFile": "The file that was removed.",
    "Balance": "The balances of your wallets.",
    "WalletBalance": "The balance of one wallet.",
    "BalanceTransaction": "One change of a wallet's balance.",
    "BalanceTransactionList": "A page of the statement.",
    "PayoutList": "A page of payouts.",
    "Commission": "The commission, and who paid it.",
    "Customer": "The customer, as sent by the merchant.",
    "InitiatedPayout": "An accepted payout. The wallet is debited.",
    "PayoutInfo": "The payout's details, fee and total.",
    "DeliveredPayout": "A delivered payout.",
    "UndeliveredPayout": "A pending or failed payout.",
    "PayoutMethods": "The withdrawal methods for a currency.",
    "WithdrawalMethod": "A withdrawal method.",
    "BeneficiaryField": "A field of the beneficiary.",
    "BankList": "The banks that a provider supports.",
    "ListedBank": "A bank.",
    "SiteInfo": "Information about this site, for your own pages.",
    "SiteFeatures": "Labels for your own pages.",
    "SiteEnvironments": "Descriptions of the two environments.",
    "PaymentNotice": "A payment's status change.",
    "PaymentNoticeData": "The payment.",
    "PayoutNotice": "A payout's status change.",
    "PayoutNoticeData": "The payout.",
    "RefundNotice": "A completed refund.",
    "RefundNoticeData": "The payment, and the refunded amount.",
    "LegacyNotice": "A status change of a payment that was created through the legacy API.",
}
