"""Examples of requests, responses and notifications for the OpenAPI document; tests verify them.

They are JSON text, so that no amount is changed by a float.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from manilla.kit import strict_json
from manilla.kit.errors import Refusal

Examples = Mapping[str, Any]  # by name


def _read(**texts: str) -> Examples:
    return {name: strict_json.decode(text.encode()) for name, text in texts.items()}


TRX_ID = "TXN01M7EWKJ9J0000001WNNC2DWVAFGAZ"
REQUEST_ID = "4f1d0c2ab97e35c860d1f2a7"

SESSION = """
{"payment_url": "https://pay.example.com/checkout/TXN01M7EWKJ9J0000001WNNC2DWVAFGAZ?expires=1794724094&signature=91a4c0fd6b1e43a5b2e8f27d90cc36b1e5a7d4f8c2093b6e1da5708f4c6b29e3",
 "info": {
  "ref_trx": "ORDER-1001", "description": "Two books",
  "ipn_url": "https://shop.example/ipn",
  "cancel_redirect": "https://shop.example/basket",
  "success_redirect": "https://shop.example/paid?cart=7",
  "customer_name": "Ada Obi", "customer_email": "ada@example.com",
  "merchant_id": 1, "merchant_name": "Demo Store",
  "amount": 1500.50, "currency_code": "NGN",
  "environment": "sandbox", "is_sandbox": true,
  "allow_payment_methods": ["providera", "Bank Transfer"],
  "merchant_payment_methods_restricted": false,
  "merchant_payment_method_ids": [1, 2, 4],
  "merchant_payment_method_codes": ["providera-ngn", "providera_ngn_va", "providerb_ngn_va"],
  "base_amount": 1500.50,
  "api_fee_bearer": "customer", "commission_bearer": "customer",
  "api_fee_percent": 1.5, "api_commission_fee": 22.51, "commission_fee": 22.51,
  "customer_pays": 1523.01, "merchant_receives": 1500.50}}
"""

LEGACY_SESSION = """
{"payment_url": "https://pay.example.com/checkout/TXN01M7EWKJ9J0000001WNNC2DWVAFGAZ?expires=1794724094&signature=91a4c0fd6b1e43a5b2e8f27d90cc36b1e5a7d4f8c2093b6e1da5708f4c6b29e3",
 "info": {
  "ref_trx": "ORDER-1001", "description": null,
  "ipn_url": "https://shop.example/ipn",
  "cancel_redirect": null, "success_redirect": null,
  "customer_name": null, "customer_email": "ada@example.com",
  "merchant_id": 1, "merchant_name": "Demo Store",
  "amount": 1500.50, "currency_code": "NGN",
  "environment": "sandbox", "is_sandbox": true,
  "allow_payment_methods": [],
  "merchant_payment_methods_restricted": false,
  "merchant_payment_method_ids": [1, 2, 3, 4, 5],
  "merchant_payment_method_codes": ["providera-ngn", "providera_ngn_va", "providerb-ngn", "providerb_ngn_va", "providerc-ngn"],
  "base_amount": 1500.50,
  "api_fee_bearer": "customer", "commission_bearer": "customer",
  "api_fee_percent": 0, "api_commission_fee": 0.00, "commission_fee": 0.00,
  "customer_pays": 1500.50, "merchant_receives": 1500.50}}
"""  # noqa: E501

METHODS = """
{"currency_code": "NGN",
 "methods": [
  {"id": 6, "name": "Provider A bank transfer", "method_code": "providera_ngn_transfer",
   "type": "auto", "currency": "NGN", "min_withdraw": 100.00, "max_withdraw": 5000000.00,
   "fields": [
    {"name": "bank_code", "type": "select", "validation": "required", "label": "Bank"},
    {"name": "account_number", "type": "text", "validation": "required",
     "label": "Account Number"},
    {"name": "account_name", "type": "text", "validation": "nullable", "label": "Account Name",
     "api_auto_resolved": true}]},
  {"id": 9, "name": "Manual bank transfer", "method_code": "platform",
   "type": "manual", "currency": "NGN", "min_withdraw": 500.00, "max_withdraw": 1000000.00,
   "fields": [
    {"name": "Bank Name", "type": "text", "validation": "required"},
    {"name": "Account Number", "type": "text", "validation": "required"}]}]}
"""

REQUESTS: Mapping[str, Examples] = {
    "initiatePayment": _read(
        payment="""
        {"payment_amount": 1500.50, "currency_code": "NGN", "ref_trx": "ORDER-1001",
         "success_redirect": "https://shop.example/paid?cart=7",
         "cancel_redirect": "https://shop.example/basket",
         "ipn_url": "https://shop.example/ipn", "description": "Two books",
         "customer_name": "Ada Obi", "customer_email": "ada@example.com",
         "allow_payment_methods": "providera, Bank Transfer"}""",
        minimal="""
        {"payment_amount": 1500.50, "currency_code": "NGN", "ref_trx": "ORDER-1002",
         "success_redirect": "https://shop.example/paid",
         "cancel_redirect": "https://shop.example/basket",
         "ipn_url": "https://shop.example/ipn"}""",
    ),
    "initiatePaymentLegacy": _read(
        payment="""
        {"payment_amount": 1500.50, "currency_code": "NGN", "ref_trx": "ORDER-1001",
         "customer_email": "ada@example.com", "ipn_url": "https://shop.example/ipn"}""",
    ),
    "initiatePayout": _read(
        bankTransfer="""
        {"payout_amount": 5000, "currency_code": "NGN", "ref_trx": "PAYOUT-1001",
         "ipn_url": "https://shop.example/ipn", "withdraw_method_id": 6,
         "beneficiary": {"bank_code": "058", "account_number": "0123456789"},
         "description": "Salary, November"}""",
        savedAccount="""
        {"payout_amount": 5000, "currency_code": "NGN", "ref_trx": "PAYOUT-1002",
         "ipn_url": "https://shop.example/ipn", "withdraw_method_id": 6,
         "withdraw_account_id": 1}""",
        manual="""
        {"payout_amount": 2500, "currency_code": "NGN", "ref_trx": "PAYOUT-1003",
         "ipn_url": "https://shop.example/ipn", "withdraw_method_id": 9,
         "beneficiary": {"Bank Name": "Guaranty Trust Bank", "Account Number": "0123456789"}}""",
    ),
}

ANSWERS: Mapping[str, Examples] = {
    "siteInfo": _read(
        site="""
        {"site_name": "Manilla", "site_logo": "https://pay.example.com/static/logo.svg",
         "site_url": "https://pay.example.com", "gateway_name": "Manilla",
         "gateway_description": "Payments and payouts.",
         "features": {"ssl_secured": "SSL secured", "instant_processing": "Instant processing",
          "global_support": "Global support", "mobile_ready": "Mobile ready"},
         "environments": {
          "production": "Live environment: real payments and payouts, for approved merchants.",
          "sandbox": "Test environment: its own credentials and wallets, no real money."},
         "api_version": "1.0", "status": "active"}"""
    ),
    "initiatePayment": _read(session=SESSION),
    "initiatePaymentLegacy": _read(session=LEGACY_SESSION),
    "verifyPayment": _read(
        success="""
        {"status": "success", "trx_id": "TXN01M7EWKJ9J0000001WNNC2DWVAFGAZ",
         "amount": 1500.50, "fee": 22.51, "currency": "NGN", "net_amount": 1500.50,
         "commission": {
          "base_amount": 1500.50, "commission_fee": 22.51, "commission_bearer": "customer",
          "customer_paid": 1523.01, "merchant_received": 1500.50,
          "commission_trx_id": "TXN01M7EWKJD40000001C0RV3QXPT6X66"},
         "customer": {"name": "Ada Obi", "email": "ada@example.com"},
         "description": "Two books", "created_at": "2026-11-15T05:59:11.412698Z",
         "updated_at": "2026-11-15T05:59:11.523086Z"}""",
        pending="""
        {"status": "pending", "event": "payment", "trx_id": "TXN01M7EWJFYQ00000013WHE6RQGM53ZP",
         "ref_trx": "ORDER-1002", "message": "Payment is still pending."}""",
        failed="""
        {"status": "failed", "event": "payment", "trx_id": "TXN01M7EWJG2T0000001XT2BGVK525M9R",
         "ref_trx": "ORDER-1003", "message": "Payment failed or was canceled.",
         "error_code": "PAYMENT_DECLINED"}""",
    ),
    "payoutMethods": _read(methods=METHODS),
    "initiatePayout": _read(
        payout="""
        {"trx_id": "TXN01M7EZDGEJ0000001NR52GC7R95NZN", "status": "pending",
         "info": {
          "merchant_id": 1, "merchant_name": "Demo Store",
          "ref_trx": "PAYOUT-1001", "ipn_url": "https://shop.example/ipn",
          "environment": "sandbox", "is_sandbox": true, "api_merchant_payout": true,
          "withdraw_method_id": 6, "withdraw_method": "Provider A bank transfer",
          "trx_id": "TXN01M7EZDGEJ0000001NR52GC7R95NZN",
          "payout_amount": 5000.00, "currency_code": "NGN",
          "fee": 50.00, "net_amount": 5000.00, "payable_amount": 5050.00,
          "status": "pending", "processing_type": "auto"}}"""
    ),
    "verifyPayout": _read(
        success="""
        {"status": "success", "event": "payout", "trx_id": "TXN01M7EZDGEJ0000001NR52GC7R95NZN",
         "ref_trx": "PAYOUT-1001", "amount": 5000.00, "fee": 50.00, "currency": "NGN",
         "net_amount": 5000.00, "description": "Salary, November",
         "created_at": "2026-11-15T06:48:16.082184Z",
         "updated_at": "2026-11-15T06:48:21.337509Z"}""",
        pending="""
        {"status": "pending", "event": "payout", "trx_id": "TXN01M7EZDGEJ0000001NR52GC7R95NZN",
         "ref_trx": "PAYOUT-1001", "message": "Payout is still pending."}""",
        failed="""
        {"status": "failed", "event": "payout", "trx_id": "TXN01M7EZ3EXM0000001CMG34DMJMY0GF",
         "ref_trx": "PAYOUT-1005",
         "message": "Payout failed or was canceled. The gateway rejected the transfer.",
         "error_code": "gateway_payout_failed"}""",
    ),
    "payoutBankList": _read(
        providerB="""
        {"provider": "providerb", "currency_code": "NGN",
         "banks": [{"bank_code": "000014", "bank_name": "Access Bank"},
          {"bank_code": "000013", "bank_name": "Guaranty Trust Bank"}]}""",
        providerA="""
        {"provider": "providera", "currency_code": "NGN",
         "banks": [{"bank_code": "044", "bank_name": "Access Bank"},
          {"bank_code": "058", "bank_name": "Guaranty Trust Bank"}]}""",
    ),
}

COMMISSION = """
  {"base_amount": 1500.50, "commission_fee": 22.51, "commission_bearer": "customer",
   "customer_paid": 1523.01, "merchant_received": 1500.50,
   "commission_trx_id": "TXN01M7EWKJD40000001C0RV3QXPT6X66"}"""
NO_COMMISSION = """
  {"base_amount": 1500.50, "commission_fee": 22.51, "commission_bearer": "customer",
   "customer_paid": 0.00, "merchant_received": 0.00, "commission_trx_id": null}"""
PAYMENT = """
  "ref_trx": "ORDER-1001", "trx_id": "TXN01M7EWKJ9J0000001WNNC2DWVAFGAZ",
  "description": "Two books", "ipn_url": "https://shop.example/ipn",
  "customer_name": "Ada Obi", "customer_email": "ada@example.com", "merchant_name": "Demo Store",
  "amount": 1500.50, "base_amount": 1500.50, "currency_code": "NGN",
  "environment": "production", "is_sandbox": false, "commission":"""
PAYOUT = """
  "ref_trx": "PAYOUT-1001", "trx_id": "TXN01M7EZDGEJ0000001NR52GC7R95NZN",
  "ipn_url": "https://shop.example/ipn", "environment": "production", "is_sandbox": false,
  "api_merchant_payout": true, "payout_amount": 5000.00, "currency_code": "NGN",
  "withdraw_method_id": 6, "withdraw_method": "Provider A bank transfer" """
REFUNDED = '"refunded_amount": 5050.00, "error_code": "gateway_payout_failed"'
REJECTED = '"refunded_amount": 5050.00, "error_code": "payout_failed"'

NOTICES: Mapping[str, Examples] = {
    "payment": _read(
        completed=f"""
        {{"event": "payment", "data": {{{PAYMENT}{COMMISSION}}},
         "message": "Payment Completed", "status": "completed", "timestamp": 1794722351}}""",
        failed=f"""
        {{"event": "payment", "data": {{{PAYMENT}{NO_COMMISSION}}},
         "message": "Payment Failed", "status": "failed", "timestamp": 1794722351,
         "error_code": "PAYMENT_DECLINED"}}""",
        canceled=f"""
        {{"event": "payment", "data": {{{PAYMENT}{NO_COMMISSION}}},
         "message": "Payment Canceled", "status": "canceled", "timestamp": 1794722351,
         "error_code": "PAYMENT_CANCELED"}}""",
    ),
    "payout": _read(
        completed=f"""
        {{"event": "payout", "data": {{{PAYOUT}}},
         "message": "Payout Completed", "status": "completed", "timestamp": 1794724968}}""",
        failed=f"""
        {{"event": "payout", "data": {{{PAYOUT}, {REFUNDED}}},
         "message": "Payout Failed", "status": "failed", "timestamp": 1794724969, {REFUNDED}}}""",
        canceled=f"""
        {{"event": "payout", "data": {{{PAYOUT}, {REJECTED}}},
         "message": "Payout Canceled", "status": "canceled", "timestamp": 1794724969,
         {REJECTED}}}""",
        reversed=f"""
        {{"event": "payout", "data": {{{PAYOUT}, {REFUNDED}}},
         "message": "Payout Reversed", "status": "failed", "timestamp": 1794811369,
         {REFUNDED}}}""",
    ),
    "refund": _read(
        completed=f"""
        {{"event": "refund", "data": {{{PAYMENT}{COMMISSION}, "refund_amount": 500.50,
          "refund_trx_id": "TXN01M7EWNYTG0000001TZGV18ED9N4MM"}},
         "message": "Payment Refunded", "status": "completed", "timestamp": 1794722431}}"""
    ),
    "legacyPayment": _read(
        completed="""
        {"event": "payment.success", "trx_id": "TXN01M7EWSGYN0000001VK6EG4FNSR62C",
         "amount": 1500.50, "currency": "NGN", "status": "completed"}""",
        failed="""
        {"event": "payment.failed", "trx_id": "TXN01M7EWSGXD0000001T6Z1DK8QTFE5W",
         "amount": 1500.50, "currency": "NGN", "status": "failed"}""",
    ),
}

DECIMALS = "The amount may have at most 2 decimals."
FAULT = {
    "error": f"Something went wrong on our side. Please quote request {REQUEST_ID}.",
    "error_code": "SERVER_ERROR",
}


def error(refusal: type[Refusal], body: Iterable[str] = (), query: Iterable[str] = ()) -> Any:
    """The example body of an error, for an endpoint with these body and query fields."""
    answer = {"error": refusal.message, "error_code": str(refusal.code)}
    match refusal.code:
        case "VALIDATION_FAILED":
            fields = [*query, *(field for field in body if field == "ref_trx")]
            if not fields:
                return {**answer, "error": "The body is larger than 64 KiB."}
            return {**answer, "errors": dict.fromkeys(fields, "This field is required.")}
        case "INVALID_AMOUNT":
            amounts = [field for field in body if field.endswith("_amount")]
            return {**answer, "errors": dict.fromkeys(amounts, DECIMALS)}
        case "INVALID_CREDENTIALS":
            return {**answer, "errors": {"X-Signature": "The signature does not match."}}
        case "DUPLICATE_REFERENCE":
            return {**answer, "trx_id": TRX_ID, "status": "pending"}
    return answer
