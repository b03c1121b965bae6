"""Defines Kora's API contract: envelope, authentication, calls and webhooks."""

from collections.abc import Mapping
from typing import Any

from manilla_simulator import banks, fees
from manilla_simulator.dialects.kora import accounts, chargebacks, payments, payouts, refunds
from manilla_simulator.dialects.kora.common import DENIALS, account_of, listing, plain_time
from manilla_simulator.faults import CallName
from manilla_simulator.provider import Provider
from manilla_simulator.settings import Account, KoraAccount
from manilla_simulator.signatures import bytes_of_data, hex_hmac
from manilla_simulator.state import CURRENCY, NOTHING, Movement
from manilla_simulator.wire import Answer, Ask, Call, Denial, Wire, envelope, require_bearer

INVALID_KEY = Denial(401, "Invalid authorization key", "unauthorized")
SOURCES = {
    "charge": "pay-in",
    "transfer": "payout",
    "refund": "refund",
    "dispute": "chargeback",
    "": "funding",
}


def error_envelope(denial: Denial) -> dict[str, Any]:
    if denial.field:
        problems = {denial.field: {"message": denial.message}}
        return {
            "status": False,
            "error": "bad_request",
            "message": "invalid request data",
            "data": problems,
        }
    error = {"error": denial.code} if denial.code else {}
    return {"status": False, **error, "message": denial.message, "data": None}


def authenticate(provider: Provider, headers: Mapping[str, str]) -> None:
    require_bearer(headers, account_of(provider).secret_key, INVALID_KEY)


def sign(account: Account, key: str, raw: bytes) -> dict[str, str]:
    assert isinstance(account, KoraAccount)
    part, digest = account.signature.split("-")
    signed = bytes_of_data(raw) if part == "data" else raw
    return {"x-korapay-signature": hex_hmac(key, signed, digest)}


def balances(provider: Provider, _ask: Ask) -> Answer:
    balance = {
        "pending_balance": NOTHING.amount,
        "available_balance": provider.wallet.available.amount,
    }
    return Answer({CURRENCY: balance}, "success")


def history(provider: Provider, ask: Ask) -> Answer:
    direction = ask.query.get("direction", "")
    every = [line for line in reversed(provider.statement) if direction in ("", _direction(line))]
    return listing(
        ask,
        every,
        lambda line: line.number,
        lambda line: line.at,
        _line,
        "Balance history retrieved successfully",
        provider.faults.statement_overlap,
    )


def _direction(line: Movement) -> str:
    return "credit" if line.difference > NOTHING else "debit"


def _line(line: Movement) -> dict[str, Any]:
    amount = line.difference if line.difference > NOTHING else NOTHING - line.difference
    return {
        "amount": str(amount.amount),
        "currency": CURRENCY,
        "balance_before": str((line.balance - line.difference).amount),
        "balance_after": str(line.balance.amount),
        "date_created": plain_time(line.at),
        "description": f"{SOURCES[line.kind]} {line.reference}".strip(),
        "direction": _direction(line),
        "source": SOURCES[line.kind],
        "source_reference": line.reference or None,
    }


_ROOT = "/merchant/api/v1"
WIRE = Wire(
    key="kora",
    name="kora",
    title="Kora",
    account=lambda settings: settings.kora,
    account_prefix="95",
    banks=banks.KORA,
    fees=fees.KORA,
    denials=DENIALS,
    calls=(
        Call(CallName.CHARGE, "POST", f"{_ROOT}/charges/initialize", payments.initialize),
        Call(CallName.CHARGE, "POST", f"{_ROOT}/charges/bank-transfer", payments.open_account),
        Call(CallName.CHARGE_STATUS, "GET", f"{_ROOT}/charges/{{reference}}", payments.query),
        Call(
            CallName.CHARGE,
            "POST",
            f"{_ROOT}/virtual-bank-account/sandbox/credit",
            payments.credit_account,
        ),
        Call(CallName.ACCOUNT, "POST", f"{_ROOT}/virtual-bank-account", accounts.create),
        Call(
            CallName.ACCOUNT_TRANSFERS,
            "GET",
            f"{_ROOT}/virtual-bank-account/transactions",
            accounts.list_transfers,
        ),
        Call(
            CallName.ACCOUNT_STATUS,
            "GET",
            f"{_ROOT}/virtual-bank-account/{{account_reference}}",
            accounts.fetch,
        ),
        Call(CallName.BANKS, "GET", f"{_ROOT}/misc/banks", payouts.list_banks),
        Call(CallName.RESOLVE, "POST", f"{_ROOT}/misc/banks/resolve", payouts.resolve),
        Call(CallName.BALANCE, "GET", f"{_ROOT}/balances", balances),
        Call(CallName.TRANSFER, "POST", f"{_ROOT}/transactions/disburse", payouts.disburse),
        Call(CallName.TRANSFER_STATUS, "GET", f"{_ROOT}/transactions/{{reference}}", payouts.query),
        Call(CallName.STATEMENT, "GET", f"{_ROOT}/balances/history", history),
        Call(CallName.STATEMENT, "GET", f"{_ROOT}/payouts", payouts.list_payouts),
        Call(CallName.STATEMENT, "GET", f"{_ROOT}/pay-ins", payments.list_payments),
        Call(CallName.REFUND, "POST", f"{_ROOT}/refunds/initiate", refunds.initiate),
        Call(CallName.REFUND_STATUS, "GET", f"{_ROOT}/refunds", refunds.list_refunds),
        Call(CallName.REFUND_STATUS, "GET", f"{_ROOT}/refunds/{{reference}}", refunds.query),
        # Kora documents this path without the prefix of its other calls.
        Call(
            CallName.DISPUTE_ANSWER,
            "PATCH",
            "/api/v1/chargebacks/{reference}",
            chargebacks.answer,
        ),
    ),
    envelope=envelope,
    error_envelope=error_envelope,
    authenticate=authenticate,
    sign=sign,
    webhook_secret=lambda account: account.secret_key,
    charge_notice=payments.charge_notice,
    transfer_notice=payouts.transfer_notice,
    refund_notice=refunds.refund_notice,
    dispute_reference=lambda number: f"KPY-CHB-{number}",
    transfer_reference=lambda number: f"KPY-PAY-{number}",
    return_query=lambda charge, _canceled: {"reference": charge.reference},
    charge_words=payments.STATUS_WORDS,
    transfer_words=payouts.STATUS_WORDS,
)
