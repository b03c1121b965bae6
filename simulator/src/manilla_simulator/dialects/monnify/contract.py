"""Defines Monnify's API contract: envelope, tokens, calls and webhooks."""

import base64
import secrets
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from manilla_simulator import banks, fees
from manilla_simulator.dialects.monnify import accounts, payments, payouts, refunds, ways
from manilla_simulator.dialects.monnify.common import DENIALS, account_of
from manilla_simulator.faults import CallName
from manilla_simulator.provider import Provider
from manilla_simulator.signatures import hmac_of_body
from manilla_simulator.state import now
from manilla_simulator.wire import Answer, Ask, Call, Denial, Refused, Wire, is_same

WRONG_CREDENTIALS = Denial(401, "Invalid API credentials", "99")
INVALID_TOKEN = Denial(401, "Invalid access token", "99")
EXPIRED_TOKEN = Denial(401, "Access token expired", "99")
TOKENS_MAX = 1000


def login(provider: Provider, ask: Ask) -> Answer:
    account = account_of(provider)
    expected = base64.b64encode(f"{account.api_key}:{account.secret_key}".encode()).decode()
    if not is_same(ask.headers.get("Authorization", ""), f"Basic {expected}"):
        raise Refused(WRONG_CREDENTIALS)
    token = f"eyJhbGciOiJSUzI1NiJ9.{secrets.token_urlsafe(48)}.{secrets.token_urlsafe(32)}"
    provider.tokens[token] = now() + timedelta(seconds=account.token_seconds)
    if len(provider.tokens) > TOKENS_MAX:
        del provider.tokens[next(iter(provider.tokens))]
    return Answer({"accessToken": token, "expiresIn": int(account.token_seconds)}, "success")


def authenticate(provider: Provider, headers: Mapping[str, str]) -> None:
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    expires_at = provider.tokens.get(token)
    if scheme != "Bearer" or expires_at is None:
        raise Refused(INVALID_TOKEN)
    if now() >= expires_at:
        raise Refused(EXPIRED_TOKEN)


def envelope(provider: Provider, answer: Answer) -> dict[str, Any]:
    omitted = account_of(provider).omits_request_successful
    return {
        **({} if omitted else {"requestSuccessful": True}),
        "responseMessage": answer.message,
        "responseCode": "0",
        "responseBody": answer.data,
    }


def error_envelope(denial: Denial) -> dict[str, Any]:
    return {
        "requestSuccessful": False,
        "responseMessage": denial.message,
        "responseCode": denial.code or "99",
    }


def webhook_secret(account: Any) -> str | None:
    """Returns the key that signs webhooks, or None in the sandbox, which signs no webhooks."""
    is_sandbox: bool = account.api_key.startswith("MK_TEST_")
    return None if is_sandbox else account.secret_key


_V1, _V2 = "/api/v1", "/api/v2"
_MANDATE = f"{_V1}/direct-debit/mandate"
_MERCHANT, _SINGLE = f"{_V1}/merchant", f"{_V2}/disbursements/single"
_RESERVED = "{}/bank-transfer/reserved-accounts"
WIRE = Wire(
    key="monnify",
    name="monnify",
    title="Monnify",
    account=lambda settings: settings.monnify,
    account_prefix="94",
    banks=banks.MONNIFY,
    fees=fees.MONNIFY,
    denials=DENIALS,
    calls=(
        Call(CallName.TOKEN, "POST", f"{_V1}/auth/login", login, is_public=True),
        Call(
            CallName.CHARGE,
            "POST",
            f"{_MERCHANT}/transactions/init-transaction",
            payments.initialize,
        ),
        Call(
            CallName.CHARGE,
            "POST",
            f"{_MERCHANT}/bank-transfer/init-payment",
            payments.open_account,
        ),
        Call(
            CallName.CHARGE_AGAIN, "POST", f"{_MERCHANT}/cards/charge-card-token", ways.charge_token
        ),
        Call(CallName.MANDATE, "POST", f"{_MANDATE}/create", ways.create),
        Call(CallName.MANDATE_STATUS, "GET", f"{_MANDATE}/", ways.query),
        Call(CallName.CHARGE_AGAIN, "POST", f"{_MANDATE}/debit", ways.debit),
        Call(CallName.CHARGE_STATUS, "GET", f"{_MANDATE}/debit-status", ways.debit_status),
        Call(CallName.FORGET_CARD, "PATCH", f"{_MANDATE}/cancel-mandate/{{code}}", ways.cancel),
        Call(
            CallName.CHARGE_STATUS,
            "GET",
            f"{_V2}/transactions/{{transactionReference}}",
            payments.status,
        ),
        Call(CallName.CHARGE_STATUS, "GET", f"{_V2}/merchant/transactions/query", payments.query),
        Call(CallName.ACCOUNT, "POST", _RESERVED.format(_V2), accounts.reserve),
        Call(
            CallName.ACCOUNT_TRANSFERS,
            "GET",
            f"{_RESERVED.format(_V1)}/transactions",
            accounts.list_transfers,
        ),
        Call(
            CallName.ACCOUNT,
            "DELETE",
            f"{_RESERVED.format(_V1)}/reference/{{accountReference}}",
            accounts.deallocate,
        ),
        Call(
            CallName.ACCOUNT_STATUS,
            "GET",
            f"{_RESERVED.format(_V2)}/{{accountReference}}",
            accounts.fetch,
        ),
        Call(CallName.BANKS, "GET", f"{_V1}/banks", payouts.list_banks),
        Call(
            CallName.RESOLVE,
            "GET",
            f"{_V1}/disbursements/account/validate",
            payouts.validate_account,
        ),
        Call(CallName.TRANSFER, "POST", _SINGLE, payouts.send),
        Call(CallName.APPROVE, "POST", f"{_SINGLE}/validate-otp", payouts.authorize),
        Call(CallName.APPROVE, "POST", f"{_SINGLE}/resend-otp", payouts.resend_code),
        Call(CallName.TRANSFER_STATUS, "GET", f"{_SINGLE}/summary", payouts.summary),
        Call(CallName.STATEMENT, "GET", f"{_SINGLE}/transactions", payouts.list_transfers),
        Call(CallName.STATEMENT, "GET", f"{_V2}/disbursements/search-transactions", payouts.search),
        Call(CallName.BALANCE, "GET", f"{_V2}/disbursements/wallet-balance", payouts.balance),
        Call(CallName.REFUND, "POST", f"{_V1}/refunds/initiate-refund", refunds.initiate),
        Call(CallName.REFUND_STATUS, "GET", f"{_V1}/refunds", refunds.list_refunds),
        Call(CallName.REFUND_STATUS, "GET", f"{_V1}/refunds/{{refundReference}}", refunds.query),
    ),
    envelope=envelope,
    error_envelope=error_envelope,
    authenticate=authenticate,
    sign=hmac_of_body("monnify-signature", "sha512"),
    webhook_secret=webhook_secret,
    charge_notice=payments.charge_notice,
    transfer_notice=payouts.transfer_notice,
    refund_notice=refunds.refund_notice,
    mandate_notice=ways.notice,
    return_query=lambda charge, _canceled: {"paymentReference": charge.reference},
    returns_amount=payments.returns_amount,
    returned_notice=payments.returned_notice,
    charge_words=payments.STATUS_WORDS,
    transfer_words=payouts.STATUS_WORDS,
    refund_words=refunds.STATUS_WORDS,
)
