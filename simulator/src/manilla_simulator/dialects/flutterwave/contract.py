"""Defines Flutterwave's API contract: envelope, authentication, calls and webhooks."""

from collections.abc import Mapping
from typing import Any

import msgspec

from manilla_simulator import banks, fees
from manilla_simulator.dialects.flutterwave import accounts, chargebacks, payments, payouts, refunds
from manilla_simulator.dialects.flutterwave.common import DENIALS, account_of
from manilla_simulator.faults import CallName
from manilla_simulator.provider import Provider
from manilla_simulator.signatures import shared_secret
from manilla_simulator.state import Charge
from manilla_simulator.wire import Answer, BodyKind, Call, Denial, Wire, require_bearer

INVALID_KEY = Denial(401, "Invalid authorization key")


def envelope(_provider: Provider, answer: Answer) -> dict[str, Any]:
    data = {} if answer.data is None else {"data": answer.data}
    return {"status": "success", "message": answer.message, **answer.more, **data}


def error_envelope(denial: Denial) -> dict[str, Any]:
    return {"status": "error", "message": denial.message, "data": None}


def authenticate(provider: Provider, headers: Mapping[str, str]) -> None:
    require_bearer(headers, account_of(provider).secret_key, INVALID_KEY)


def return_query(charge: Charge, canceled: bool) -> dict[str, str]:
    if canceled:
        return {"status": "cancelled", "tx_ref": charge.reference}
    return {
        "status": payments.STATUS[charge.status],
        "tx_ref": charge.reference,
        "transaction_id": str(charge.number),
    }


CALLS = (
    Call(CallName.CHARGE, "POST", "/v3/payments", payments.open_link),
    Call(CallName.CHARGE, "POST", "/v3/charges", payments.charge_by_transfer),
    Call(CallName.ACCOUNT, "POST", "/v3/virtual-account-numbers", accounts.create),
    Call(CallName.CHARGE_AGAIN, "POST", "/v3/tokenized-charges", payments.charge_token),
    Call(
        CallName.CHARGE_STATUS,
        "GET",
        "/v3/transactions/verify_by_reference",
        payments.verify_by_reference,
    ),
    Call(CallName.CHARGE_STATUS, "GET", "/v3/transactions/{id}/verify", payments.verify),
    Call(CallName.ACCOUNT_STATUS, "GET", "/v3/virtual-account-numbers/{order_ref}", accounts.fetch),
    Call(CallName.ACCOUNT, "POST", "/v3/virtual-account-numbers/{order_ref}", accounts.deactivate),
    Call(CallName.ACCOUNT_TRANSFERS, "GET", "/v3/transactions", accounts.list_transactions),
    Call(CallName.REFUND, "POST", "/v3/transactions/{id}/refund", refunds.start),
    Call(CallName.REFUND_STATUS, "GET", "/v3/refunds/{id}", refunds.get),
    Call(CallName.REFUND_STATUS, "GET", "/v3/refunds", refunds.list_refunds),
    Call(CallName.DISPUTE_LIST, "GET", "/v3/chargebacks", chargebacks.list_chargebacks),
    Call(CallName.EVIDENCE, "POST", "/v3/upload_image", chargebacks.upload, body=BodyKind.FORM),
    Call(CallName.DISPUTE_ANSWER, "PUT", "/v3/chargebacks/{id}", chargebacks.answer),
    Call(CallName.BANKS, "GET", "/v3/banks/NG", payouts.list_banks),
    Call(CallName.RESOLVE, "POST", "/v3/accounts/resolve", payouts.resolve),
    Call(CallName.BALANCE, "GET", "/v3/balances/NGN", payouts.balance),
    Call(CallName.BALANCE, "GET", "/v3/balances", payouts.list_balances),
    Call(CallName.FEE, "GET", "/v3/transfers/fee", payouts.fee),
    Call(CallName.TRANSFER, "POST", "/v3/transfers", payouts.transfer),
    Call(CallName.TRANSFER_STATUS, "GET", "/v3/transfers", payouts.list_transfers),
    Call(CallName.TRANSFER_STATUS, "GET", "/v3/transfers/{id}", payouts.get_transfer),
    Call(CallName.TRANSFER, "POST", "/v3/transfers/{id}/retries", payouts.retry),
)
WIRE = Wire(
    key="flutterwave",
    name="flutterwave",
    title="Flutterwave",
    account=lambda settings: settings.flutterwave,
    account_prefix="93",
    banks=banks.FLUTTERWAVE,
    fees=fees.FLUTTERWAVE,
    denials=DENIALS,
    # Flutterwave's Node library calls some paths with two slashes.
    calls=(*CALLS, *(msgspec.structs.replace(call, path=f"/{call.path}") for call in CALLS)),
    envelope=envelope,
    error_envelope=error_envelope,
    authenticate=authenticate,
    sign=shared_secret("verif-hash"),
    webhook_secret=lambda account: account.secret_hash,
    charge_notice=payments.charge_notice,
    transfer_notice=payouts.transfer_notice,
    refund_notice=lambda _provider, _refund: None,
    # Flutterwave sends webhooks about chargebacks, but no source has their content.
    holds_disputes=True,
    dispute_word=chargebacks.word_of,
    return_query=return_query,
    transfer_words=payouts.STATUS_WORDS,
    refund_words=refunds.STATUS_WORDS,
)
