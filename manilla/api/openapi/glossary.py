"""What every field of the API means, and what can stand in it: a word means the same everywhere."""

from collections.abc import Mapping
from typing import Any

from manilla.payments.payment import ErrorCode
from manilla.payouts.payout import Code

TRX_ID_PATTERN = "^TXN[0-9A-HJKMNP-TV-Z]{30}$"
TIMESTAMP_PATTERN = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z$"
ADDRESS = {"format": "uri", "pattern": r"^https?://[^\s\\]+$"}
CURRENCY = {"pattern": "^[A-Za-z]{3}$", "minLength": 3, "maxLength": 3}
BEARER = {"enum": ["customer", "merchant"]}
AMOUNT_BELOW = 10**15
PAYMENT_BELOW = 10**14  # of a currency with two decimals

Part = Mapping[str, Any]


def _word(description: str, **rules: Any) -> Part:
    return {"description": description, **rules}


def _amount(description: str) -> Part:
    return _word(f"{description} In major units, exact to the currency's minor unit.")


def _or_empty(**rules: Any) -> Part:
    """Of optional text: empty, it counts as absent."""
    return {"anyOf": [rules, {"maxLength": 0}]}


def _id(description: str) -> Part:
    return _word(description, pattern=TRX_ID_PATTERN)


def _time(description: str) -> Part:
    return _word(
        f"{description} ISO 8601, UTC, with microseconds.",
        format="date-time",
        pattern=TIMESTAMP_PATTERN,
    )


KEYWORDS = _word(
    "Keywords that narrow the merchant's gateways: parts of names or codes, in either case; a "
    "list, or text with commas."
)

# By the field's name; where a schema means something of its own by it, by `Schema.field`.
WORDS: Mapping[str, Part] = {
    # errors
    "error": _word("What is wrong, for people. The text may change: act on `error_code`."),
    "error_code": _word("What is wrong, for programs."),
    "errors": _word("What is wrong with each field or header at fault, by its name."),
    "DuplicateError.trx_id": _id("The transaction that has this reference."),
    "DuplicateError.status": _word("What has become of that transaction."),
    # references and parties
    "trx_id": _id("The platform's id of the transaction."),
    "ref_trx": _word(
        "The merchant's own reference; each is used once.",
        minLength=1,
        maxLength=60,
        pattern=r"\S",
    ),
    "merchant_id": _word("The merchant's number on this site."),
    "merchant_name": _word("The merchant's name."),
    "customer_name": _word("The customer's name.", maxLength=100),
    "customer_email": _word("The customer's email address, as it was sent.", maxLength=100),
    "PaymentRequest.customer_email": _word(
        "The customer's email address; empty text counts as absent.",
        **_or_empty(format="email"),
        maxLength=100,
    ),
    "customer": _word("Who paid, as far as the merchant said so."),
    "Customer.name": _word("The customer's name, as it was sent."),
    "Customer.email": _word("The customer's email address, as it was sent."),
    "description": _word("The merchant's own text."),
    "environment": _word("Where it was made.", enum=["sandbox", "production"]),
    "is_sandbox": _word("Whether it was made in the sandbox: no real money."),
    # addresses
    "payment_url": _word(
        "Where to send the customer, whole and unchanged. Signed, and good for a limited time. The "
        "part of its path after `/checkout/` is the payment's `trx_id`.",
        format="uri",
    ),
    "ipn_url": _word("Where the merchant's server is told what became of it.", **ADDRESS),
    "success_redirect": _word("Where the customer goes after success.", **ADDRESS),
    "LegacyPaymentRequest.success_redirect": _word(
        "Where the customer goes after success.", **_or_empty(**ADDRESS)
    ),
    "LegacyPaymentRequest.cancel_redirect": _word(
        "Where the customer goes after canceling.", **_or_empty(**ADDRESS)
    ),
    "cancel_redirect": _word(
        "Where the customer goes on cancel, or when checkout cannot continue.", **ADDRESS
    ),
    # money
    "payment_amount": _word(
        "What is to be paid, at least 1.00 and at most 99999999999999.99, in major units. A JSON "
        "number with no more decimals than the currency has.",
        minimum=1,
        exclusiveMaximum=PAYMENT_BELOW,
    ),
    "currency_code": _word(
        "ISO 4217, enabled for the merchant and backed by an active wallet.", **CURRENCY
    ),
    "currency": _word("ISO 4217.", **CURRENCY),
    "amount": _amount("The amount, without commission or fee."),
    "base_amount": _amount("The payment's amount, without commission."),
    "fee": _amount("What was charged: the commission of a payment, the method's fee of a payout."),
    "net_amount": _amount("What arrives: in the wallet, or at the beneficiary."),
    "payout_amount": _amount("What the beneficiary gets."),
    "PayoutRequest.payout_amount": _word(
        "What the beneficiary gets, within the method's `min_withdraw` and `max_withdraw`. A JSON "
        "number with no more decimals than the currency has.",
        exclusiveMinimum=0,
        exclusiveMaximum=AMOUNT_BELOW,
    ),
    "payable_amount": _amount("What the wallet was debited: `payout_amount` and `fee`."),
    "refunded_amount": _amount("What the wallet got back: the payout's amount and fee."),
    "refund_amount": _amount("What the customer got back."),
    "refund_trx_id": _id("The platform's id of the refund."),
    # commission
    "commission": _word("Who paid how much commission."),
    "api_fee_bearer": _word("Who bears the commission.", **BEARER),
    "commission_bearer": _word("Who bears the commission.", **BEARER),
    "api_fee_percent": _word("The commission's percentage, set by the administrator."),
    "api_commission_fee": _amount("The commission."),
    "commission_fee": _amount("The commission."),
    "customer_pays": _amount("What the customer pays on checkout."),
    "merchant_receives": _amount("What the merchant's wallet is credited on success."),
    "customer_paid": _amount("What the customer paid; 0 where nothing was."),
    "merchant_received": _amount("What the wallet was credited; 0 where nothing was."),
    "commission_trx_id": _id("The commission's own transaction; null where none was charged."),
    # gateways and methods
    "allow_payment_methods": _word("Keywords that narrow the gateways; empty: none were given."),
    "PaymentRequest.allow_payment_methods": KEYWORDS,
    "LegacyPaymentRequest.allow_payment_methods": KEYWORDS,
    "merchant_payment_methods_restricted": _word(
        "Whether the merchant has selected certain gateways in its settings."
    ),
    "merchant_payment_method_ids": _word("The gateways that checkout can offer, by id."),
    "merchant_payment_method_codes": _word("The gateways that checkout can offer, by code."),
    "methods": _word("The methods that can be used now, best first."),
    "WithdrawalMethod.id": _word("What initiate-payout takes as `withdraw_method_id`."),
    "WithdrawalMethod.name": _word("The method's name."),
    "WithdrawalMethod.type": _word(
        "`auto`: a provider sends it at once; `manual`: an administrator does.",
        enum=["auto", "manual"],
    ),
    "method_code": _word("The method's stable name, the same on every installation."),
    "min_withdraw": _amount("The least `payout_amount`."),
    "max_withdraw": _amount("The largest `payout_amount`; null: no limit."),
    "fields": _word("What a beneficiary of this method consists of."),
    "BeneficiaryField.name": _word("The key in `beneficiary`."),
    "BeneficiaryField.type": _word("How to ask for it.", enum=["select", "text"]),
    "BeneficiaryField.validation": _word(
        "Whether it must be given.", enum=["required", "nullable"]
    ),
    "BeneficiaryField.label": _word("What to call it on a form."),
    "BeneficiaryField.api_auto_resolved": _word("True: it may be left out of `beneficiary`."),
    "withdraw_method_id": _word("The method's `id` from payout-methods."),
    "withdraw_method": _word("The method's name."),
    "withdraw_account_id": _word(
        "A saved account, by its number; required if `beneficiary` is omitted."
    ),
    "beneficiary": _word(
        "Who is paid: the method's `fields`. For automatic NGN methods send `bank_code` and "
        "`account_number`; the name is looked up. Required if `withdraw_account_id` is omitted."
    ),
    "processing_type": _word(
        "`auto` for automatic methods, else `manual`.", enum=["auto", "manual"]
    ),
    "api_merchant_payout": _word("True: it was made through this API."),
    # banks
    "provider": _word("Whose bank codes these are."),
    "banks": _word("The banks that this provider can pay to."),
    "bank_code": _word("The bank's code, in the provider's own list."),
    "bank_name": _word("The bank's name."),
    # sites
    "site_name": _word("The site's name."),
    "site_logo": _word("The address of its logo.", format="uri"),
    "site_url": _word("The address of the site.", format="uri"),
    "gateway_name": _word("The gateway's name."),
    "gateway_description": _word("One sentence about the gateway."),
    "features": _word("Labels for a merchant's own pages."),
    "ssl_secured": _word("The label for encrypted connections."),
    "instant_processing": _word("The label for processing at once."),
    "global_support": _word("The label for support."),
    "mobile_ready": _word("The label for phones."),
    "environments": _word("What the two environments are for."),
    "production": _word("What production is for."),
    "sandbox": _word("What the sandbox is for."),
    "api_version": _word("The version of the API.", enum=["1.0"]),
    "SiteInfo.status": _word("Whether the site is in service.", enum=["active"]),
    # states
    "VerifiedPayment.status": _word("Completed.", enum=["success"]),
    "UnfinishedPayment.status": _word(
        "`pending`: wait for the notification, or ask later; `failed`: do not deliver.",
        enum=["pending", "failed"],
    ),
    "UnfinishedPayment.event": _word("What this is about.", enum=["payment"]),
    "UnfinishedPayment.error_code": _word(
        "Why it failed; absent while it is pending.", enum=[str(code) for code in ErrorCode]
    ),
    "DeliveredPayout.status": _word("Delivered.", enum=["success"]),
    "UndeliveredPayout.status": _word(
        "`pending`: nobody knows yet; `failed`: the wallet has its money back.",
        enum=["pending", "failed"],
    ),
    "UndeliveredPayout.error_code": _word(
        "Why it failed; absent while it is pending.", enum=[str(code) for code in Code]
    ),
    "UndeliveredPayout.event": _word("What this is about.", enum=["payout"]),
    "DeliveredPayout.event": _word("What this is about.", enum=["payout"]),
    "InitiatedPayout.status": _word("What becomes of it is told later.", enum=["pending"]),
    "PayoutInfo.status": _word("What becomes of it is told later.", enum=["pending"]),
    "info": _word("What was agreed."),
    "message": _word("The same, for people."),
    "created_at": _time("When it was made."),
    "updated_at": _time("When its status last changed."),
    # notifications
    "data": _word("The transaction."),
    "timestamp": _word("When it happened, Unix time in seconds."),
    "PaymentNotice.event": _word("What this is about.", enum=["payment"]),
    "PaymentNotice.status": _word("What became of it.", enum=["completed", "failed", "canceled"]),
    "PaymentNotice.message": _word(
        "The same, for people.", enum=["Payment Completed", "Payment Failed", "Payment Canceled"]
    ),
    "PaymentNotice.error_code": _word(
        "Why it failed; absent where it was completed.", enum=[str(code) for code in ErrorCode]
    ),
    "PayoutNotice.event": _word("What this is about.", enum=["payout"]),
    "PayoutNotice.status": _word(
        "What became of it. After a reversal `failed` follows `completed`.",
        enum=["completed", "failed", "canceled"],
    ),
    "PayoutNotice.message": _word(
        "The same, for people.",
        enum=["Payout Completed", "Payout Failed", "Payout Canceled", "Payout Reversed"],
    ),
    "PayoutNotice.error_code": _word(
        "Why it failed; absent where it was completed.", enum=[str(code) for code in Code]
    ),
    "PayoutNoticeData.error_code": _word(
        "As beside `data`; absent where it was completed.", enum=[str(code) for code in Code]
    ),
    "RefundNotice.event": _word("What this is about.", enum=["refund"]),
    "RefundNotice.status": _word("The refund is done.", enum=["completed"]),
    "RefundNotice.message": _word("The same, for people.", enum=["Payment Refunded"]),
    "LegacyNotice.event": _word("What this is about.", enum=["payment.success", "payment.failed"]),
    "LegacyNotice.status": _word("What became of it.", enum=["completed", "failed"]),
}


def word(schema: str, field: str) -> Part:
    return WORDS.get(f"{schema}.{field}") or WORDS.get(field) or {}


# What each schema is, where its struct does not say it.
SCHEMAS: Mapping[str, str] = {
    "Error": "Why a request was refused.",
    "DuplicateError": "Why a request was refused; and which transaction has the reference.",
    "PaymentRequest": "A payment to be made. Other fields are passed over.",
    "LegacyPaymentRequest": "A payment to be made, by the older API.",
    "PayoutRequest": "A payout to be made. Other fields are passed over.",
    "PaymentSession": "A hosted checkout session.",
    "PaymentInfo": "What was asked for, and what it costs whom.",
    "VerifiedPayment": "A payment that is completed.",
    "UnfinishedPayment": "A payment that is pending, or has failed.",
    "Commission": "Who paid how much commission.",
    "Customer": "The customer, as far as the merchant said.",
    "InitiatedPayout": "A payout that is on its way; the wallet is debited.",
    "PayoutInfo": "What was asked for, and what it costs.",
    "DeliveredPayout": "A payout that has arrived.",
    "UndeliveredPayout": "A payout that is pending, or has failed.",
    "PayoutMethods": "The methods for a currency.",
    "WithdrawalMethod": "A way to pay out.",
    "BeneficiaryField": "A part of the beneficiary.",
    "BankList": "The banks that a provider can pay to.",
    "ListedBank": "A bank.",
    "SiteInfo": "What the merchant's own pages may say about this site.",
    "SiteFeatures": "Labels for a merchant's own pages.",
    "SiteEnvironments": "What the two environments are for.",
    "PaymentNotice": "What became of a payment.",
    "PaymentNoticeData": "The payment.",
    "PayoutNotice": "What became of a payout.",
    "PayoutNoticeData": "The payout.",
    "RefundNotice": "A refund that is done.",
    "RefundNoticeData": "The payment, and what was refunded of it.",
    "LegacyNotice": "What became of a payment that was begun by the older API.",
}
