"""Defines Paystack's API contract: envelope, authentication, calls and webhooks."""

from collections.abc import Mapping
from typing import Any

from manilla_simulator import banks, fees
from manilla_simulator.dialects.paystack import (
    accounts,
    disputes,
    payments,
    payouts,
    refunds,
    statement,
)
from manilla_simulator.dialects.paystack.common import (
    DENIALS,
    NEXT_STEPS,
    UNKNOWN_ERROR,
    account_of,
)
from manilla_simulator.faults import CallName
from manilla_simulator.provider import Provider
from manilla_simulator.signatures import hmac_of_body
from manilla_simulator.state import TransferStatus
from manilla_simulator.wire import (
    BodyKind,
    Call,
    Denial,
    Refused,
    Wire,
    envelope,
    require_bearer,
    returns_every_other_amount,
)

NO_HEADER = Denial(401, "No Authorization Header was found", "missing_authorization")
WRONG_FORMAT = Denial(401, "Format is Authorization Bearer [secret key]", "invalid_authorization")
INVALID_KEY = Denial(401, "Invalid key", "invalid_Key")


def error_envelope(denial: Denial) -> dict[str, Any]:
    error: dict[str, Any] = {"status": False, "message": denial.message}
    code = denial.code or ("invalid_params" if denial.field else "")
    if code:
        step = NEXT_STEPS.get(code, "Ensure that the value(s) you're passing are valid.")
        error |= {"meta": {"nextStep": step}, "type": _type(denial), "code": code}
    return error


def _type(denial: Denial) -> str:
    is_internal = denial.status >= 500 or denial.code == UNKNOWN_ERROR
    return "api_error" if is_internal else "validation_error"


def authenticate(provider: Provider, headers: Mapping[str, str]) -> None:
    given = headers.get("Authorization", "")
    if not given:
        raise Refused(NO_HEADER)
    if not given.startswith("Bearer "):
        raise Refused(WRONG_FORMAT)
    require_bearer(headers, account_of(provider).secret_key, INVALID_KEY)


WIRE = Wire(
    key="paystack",
    name="paystack",
    title="Paystack",
    account=lambda settings: settings.paystack,
    account_prefix="96",
    banks=banks.PAYSTACK,
    fees=fees.PAYSTACK,
    denials=DENIALS,
    calls=(
        Call(CallName.CHARGE, "POST", "/transaction/initialize", payments.initialize),
        Call(CallName.CHARGE, "POST", "/charge", payments.charge_by_transfer),
        Call(
            CallName.CHARGE_AGAIN,
            "POST",
            "/transaction/charge_authorization",
            payments.charge_authorization,
        ),
        Call(
            CallName.FORGET_CARD, "POST", "/customer/authorization/deactivate", payments.deactivate
        ),
        Call(CallName.CHARGE_STATUS, "GET", "/transaction/verify/{reference}", payments.verify),
        Call(CallName.ACCOUNT, "POST", "/dedicated_account/assign", accounts.assign),
        Call(CallName.ACCOUNT_STATUS, "GET", "/customer/{email}", accounts.fetch_customer),
        Call(CallName.ACCOUNT, "DELETE", "/dedicated_account/{id}", accounts.deactivate),
        Call(CallName.ACCOUNT_TRANSFERS, "GET", "/transaction", accounts.list_transactions),
        Call(CallName.CHARGE_STATUS, "GET", "/transaction/{id}", accounts.fetch_transaction),
        Call(CallName.BANKS, "GET", "/bank", payouts.list_banks),
        Call(CallName.RESOLVE, "GET", "/bank/resolve", payouts.resolve),
        Call(CallName.RECIPIENT, "POST", "/transferrecipient", payouts.create_recipient),
        Call(CallName.TRANSFER, "POST", "/transfer", payouts.transfer),
        Call(CallName.APPROVE, "POST", "/transfer/finalize_transfer", payouts.finalize_transfer),
        Call(
            CallName.TRANSFER_STATUS,
            "GET",
            "/transfer/verify/{reference}",
            payouts.verify_transfer,
        ),
        Call(CallName.BALANCE, "GET", "/balance", statement.balance),
        Call(CallName.STATEMENT, "GET", "/balance/ledger", statement.ledger),
        Call(CallName.REFUND, "POST", "/refund", refunds.create),
        Call(CallName.REFUND_STATUS, "GET", "/refund", refunds.list_refunds),
        Call(CallName.REFUND_STATUS, "GET", "/refund/{id}", refunds.fetch),
        Call(CallName.DISPUTE_LIST, "GET", "/dispute", disputes.list_disputes),
        Call(CallName.DISPUTE_STATUS, "GET", "/dispute/{id}", disputes.fetch),
        Call(CallName.DISPUTE_STATUS, "GET", "/dispute/transaction/{id}", disputes.fetch_by_charge),
        Call(CallName.EVIDENCE, "GET", "/dispute/{id}/upload_url", disputes.upload_url),
        Call(
            CallName.EVIDENCE,
            "PUT",
            "/uploads/{name}",
            disputes.store,
            is_public=True,
            body=BodyKind.FILE,
        ),
        Call(CallName.EVIDENCE, "POST", "/dispute/{id}/evidence", disputes.add_evidence),
        Call(CallName.DISPUTE_ANSWER, "PUT", "/dispute/{id}", disputes.update),
        Call(CallName.DISPUTE_ANSWER, "PUT", "/dispute/{id}/resolve", disputes.resolve),
    ),
    envelope=envelope,
    error_envelope=error_envelope,
    authenticate=authenticate,
    sign=hmac_of_body("x-paystack-signature", "sha512"),
    webhook_secret=lambda account: account.secret_key,
    charge_notice=payments.charge_notice,
    transfer_notice=payouts.transfer_notice,
    refund_notice=refunds.refund_notice,
    dispute_notice=disputes.dispute_notice,
    dispute_word=disputes.word_of,
    transfer_reference=lambda number: f"T{number:015d}",
    return_query=lambda charge, _canceled: {
        "trxref": charge.reference,
        "reference": charge.reference,
    },
    returns_amount=returns_every_other_amount,
    returned_notice=payments.returned_notice,
    charge_words=payments.STATUS_WORDS,
    transfer_words=payouts.STATUS_WORDS,
    refund_words=refunds.STATUS_WORDS,
    dispute_words=disputes.STATUS_WORDS,
    # At Paystack, a transfer that was never delivered can also get the status `reversed`.
    transfer_changes=frozenset({(TransferStatus.PROCESSING, TransferStatus.REVERSED)}),
)
