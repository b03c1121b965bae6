"""The contract of provider A, a gateway for collections and payouts."""

from collections.abc import Mapping
from typing import Any

from manilla.kit import clock
from manilla_simulator import banks, charges, fees, refunds, transfers
from manilla_simulator.faults import CallName
from manilla_simulator.provider import Provider
from manilla_simulator.settings import CredentialsA
from manilla_simulator.signatures import hmac_of_body
from manilla_simulator.state import (
    CURRENCY,
    NOTHING,
    Charge,
    ChargeStatus,
    Refund,
    RefundStatus,
    Transfer,
    TransferStatus,
)
from manilla_simulator.wire import (
    Answer,
    Ask,
    Call,
    Denial,
    Denials,
    Fields,
    Notice,
    Refused,
    Wire,
    envelope,
    error_envelope,
    require_bearer,
)

ACCOUNT_BANK = banks.PROVIDER_A["035"]
CHARGE_STATUS = {**{status: status.value for status in ChargeStatus}}
CHARGE_STATUS[ChargeStatus.PENDING] = "processing"
CHARGE_MESSAGE = {
    ChargeStatus.PENDING: "Payment is being processed",
    ChargeStatus.SUCCESS: "Payment successful",
    ChargeStatus.FAILED: "Payment failed",
    ChargeStatus.EXPIRED: "Payment expired",
}
REFUND_MESSAGE = {
    RefundStatus.PROCESSING: "Refund is being processed",
    RefundStatus.SUCCESS: "Refund successful",
    RefundStatus.FAILED: "Refund failed",
}
DENIALS = Denials(
    duplicate=Denial(409, "Duplicate Transaction Reference"),
    insufficient=Denial(402, "Insufficient funds in disbursement wallet"),
    unresolvable=Denial(400, "Unable to resolve bank account."),
    unknown_bank=Denial(400, "Invalid bank provided."),
    not_found=Denial(404, "Transaction not found"),
    others=(
        Denial(403, "Payouts are not enabled for this business"),
        Denial(403, "IP address is not whitelisted"),
    ),
)


def initialize(provider: Provider, ask: Ask) -> Answer:
    order = _charge_order(ask.fields, redirect_url=ask.fields.address("redirect_url"))
    charge = charges.open_charge(provider, order)
    data = {
        "reference": charge.reference,
        "checkout_url": f"{provider.base_url}/checkout/{charge.token}",
    }
    return Answer(data, "Charge created successfully")


def open_account(provider: Provider, ask: Ask) -> Answer:
    ask.fields.group("kyc").digits("bvn", 11)
    charge = charges.open_charge(provider, _charge_order(ask.fields, banks=(ACCOUNT_BANK,)))
    account = charge.accounts[0]
    data = {
        "reference": charge.reference,
        "status": "processing",
        "amount_expected": charge.amount.amount,
        "bank_account": {
            "account_name": account.account_name,
            "account_number": account.account_number,
            "bank_name": account.bank_name,
            "bank_code": account.bank_code,
            "expiry_date_in_utc": clock.iso(charge.expires_at),
        },
    }
    return Answer(data, "Bank transfer initiated successfully")


def _charge_order(fields: Fields, **more: Any) -> charges.Order:
    fields.currency()
    customer = fields.group("customer")
    return charges.Order(
        reference=fields.reference(),
        amount=fields.amount(),
        title=fields.optional_text("narration"),
        notification_url=fields.address("notification_url"),
        customer_name=customer.text("name"),
        customer_email=customer.text("email"),
        **more,
    )


def charge_status(provider: Provider, ask: Ask) -> Answer:
    charge = charges.find(provider, ask.parameters["reference"])
    data = {
        "reference": charge.reference,
        "status": CHARGE_STATUS[charge.status],
        "amount": charge.amount.amount,
        "amount_paid": charge.amount_paid.amount,
        "fee": charge.fee.amount,
        "currency": CURRENCY,
        "payment_method": "bank_transfer" if charge.accounts else "card",
        "reason": charge.reason or None,
    }
    return Answer(data, "Charge retrieved successfully")


def list_banks(provider: Provider, ask: Ask) -> Answer:
    if ask.query_text("countryCode") != "NG":
        raise Refused(Denial(400, "countryCode is not supported"))
    listed = [
        {"name": bank.name, "slug": bank.slug, "code": bank.code, "country": "NG"}
        for bank in provider.wire.banks.values()
    ]
    return Answer(listed, "Successful")


def resolve(provider: Provider, ask: Ask) -> Answer:
    ask.fields.currency()
    account_number = ask.fields.digits("account", 10)
    bank, holder = transfers.resolve(provider, ask.fields.text("bank"), account_number)
    data = {
        "bank_name": bank.name,
        "bank_code": bank.code,
        "account_number": account_number,
        "account_name": holder,
    }
    return Answer(data, "Request completed")


def balances(provider: Provider, _ask: Ask) -> Answer:
    balance = {
        "available_balance": provider.wallet.available.amount,
        "pending_balance": NOTHING.amount,
    }
    return Answer({CURRENCY: balance}, "Success")


def disburse(provider: Provider, ask: Ask) -> Answer:
    destination = ask.fields.group("destination")
    if destination.text("type") != "bank_account":
        raise Refused(Denial(400, "destination.type must be bank_account"))
    destination.currency()
    destination.group("customer").text("email")
    account = destination.group("bank_account")
    order = transfers.Order(
        reference=ask.fields.reference(),
        amount=destination.amount(),
        narration=destination.optional_text("narration"),
        bank_code=account.text("bank"),
        account_number=account.digits("account", 10),
    )
    transfer = transfers.accept(provider, order)
    data = {
        "reference": transfer.reference,
        "status": transfer.status,
        "amount": str(transfer.amount.amount),
        "fee": str(transfer.fee.amount),
        "currency": CURRENCY,
        "trace_id": transfer.trace_id,
    }
    return Answer(data, "Transfer initiated successfully")


def transfer_status(provider: Provider, ask: Ask) -> Answer:
    transfer = transfers.find(provider, ask.parameters["reference"])
    data = {
        "reference": transfer.reference,
        "status": transfer.status,
        "amount": str(transfer.amount.amount),
        "fee": str(transfer.fee.amount),
        "currency": CURRENCY,
        "message": transfer.reason,
        "trace_id": transfer.trace_id,
    }
    return Answer(data, "Transaction retrieved successfully")


def initiate_refund(provider: Provider, ask: Ask) -> Answer:
    reference, amount = ask.fields.reference(), ask.fields.amount()
    charge = charges.find(provider, ask.fields.text("payment_reference"))
    refund = refunds.accept(provider, reference, charge, amount)
    refunds.settle_later(provider, refund)
    data = {"reference": refund.reference, "status": refund.status}
    return Answer(data, "Refund initiated successfully")


def refund_status(provider: Provider, ask: Ask) -> Answer:
    refund = refunds.find(provider, ask.parameters["reference"])
    data = {
        "reference": refund.reference,
        "status": refund.status,
        "amount": refund.amount.amount,
    }
    return Answer(data, "Refund retrieved successfully")


def charge_notice(_provider: Provider, charge: Charge) -> Notice:
    status = CHARGE_STATUS[charge.status]
    paid = charge.status is ChargeStatus.SUCCESS
    data = {
        "reference": charge.reference,
        "status": status,
        "amount": (charge.amount_paid if paid else charge.amount).amount,
        "fee": charge.fee.amount,
        "currency": CURRENCY,
        "message": charge.reason or CHARGE_MESSAGE[charge.status],
        "trace_id": str(charge.number),
    }
    return _notice(f"charge.{status}", data, charge.notification_url)


def transfer_notice(_provider: Provider, transfer: Transfer) -> Notice:
    assert transfer.status is not TransferStatus.PROCESSING
    data = {
        "reference": transfer.reference,
        "status": transfer.status,
        "amount": transfer.amount.amount,
        "fee": transfer.fee.amount,
        "currency": CURRENCY,
        "message": transfer.reason,
        "trace_id": transfer.trace_id,
    }
    return _notice(f"transfer.{transfer.status}", data)


def refund_notice(_provider: Provider, refund: Refund) -> Notice:
    data = {
        "reference": refund.reference,
        "status": refund.status,
        "amount": refund.amount.amount,
        "fee": NOTHING.amount,
        "currency": CURRENCY,
        "message": refund.reason or REFUND_MESSAGE[refund.status],
        "trace_id": refund.trace_id,
    }
    return _notice(f"refund.{refund.status}", data, refund.charge.notification_url)


def _notice(event: str, data: dict[str, Any], url: str | None = None) -> Notice:
    return Notice(event, data["reference"], {"event": event, "data": data}, url)


def authenticate(provider: Provider, headers: Mapping[str, str]) -> None:
    require_bearer(headers, _account(provider).secret_key)


def _account(provider: Provider) -> CredentialsA:
    assert isinstance(provider.account, CredentialsA)
    return provider.account


_ROOT = "/merchant/api/v1"
WIRE = Wire(
    key="a",
    name="providera",
    title="Provider A",
    account=lambda settings: settings.a,
    account_prefix="99",
    banks=banks.PROVIDER_A,
    fees=fees.PROVIDER_A,
    denials=DENIALS,
    calls=(
        Call(CallName.CHARGE, "POST", f"{_ROOT}/charges/initialize", initialize),
        Call(CallName.CHARGE, "POST", f"{_ROOT}/charges/bank-transfer", open_account),
        Call(CallName.CHARGE_STATUS, "GET", f"{_ROOT}/charges/{{reference}}", charge_status),
        Call(CallName.BANKS, "GET", f"{_ROOT}/misc/banks", list_banks),
        Call(CallName.RESOLVE, "POST", f"{_ROOT}/misc/banks/resolve", resolve),
        Call(CallName.BALANCE, "GET", f"{_ROOT}/balances", balances),
        Call(CallName.TRANSFER, "POST", f"{_ROOT}/transactions/disburse", disburse),
        Call(
            CallName.TRANSFER_STATUS, "GET", f"{_ROOT}/transactions/{{reference}}", transfer_status
        ),
        Call(CallName.REFUND, "POST", f"{_ROOT}/refunds/initiate", initiate_refund),
        Call(CallName.REFUND_STATUS, "GET", f"{_ROOT}/refunds/{{reference}}", refund_status),
    ),
    envelope=envelope,
    error_envelope=error_envelope,
    authenticate=authenticate,
    sign=hmac_of_body("x-providera-signature", "sha256"),
    webhook_secret=lambda account: account.webhook_secret,
    charge_notice=charge_notice,
    transfer_notice=transfer_notice,
    refund_notice=refund_notice,
    return_query=lambda charge, canceled: {
        "reference": charge.reference,
        **({"status": "cancelled"} if canceled else {}),
    },
)
