"""The contract of provider C, a payment-link gateway."""

from collections.abc import Mapping
from typing import Any

from manilla.kit.money import Money
from manilla_simulator import banks, charges, fees, refunds, transfers
from manilla_simulator.faults import CallName, RefundOutcome
from manilla_simulator.provider import Provider
from manilla_simulator.settings import CredentialsC
from manilla_simulator.signatures import hmac_of_body
from manilla_simulator.state import (
    CURRENCY,
    Charge,
    ChargeStatus,
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
    Notice,
    Refused,
    Wire,
    require_bearer,
)

MINIMUM_TRANSFER = Money(CURRENCY, 500_00)
CHARGE_STATUS = {
    ChargeStatus.PENDING: "pending",
    ChargeStatus.EXPIRED: "pending",  # Provider C has no status for expired charges.
    ChargeStatus.SUCCESS: "successful",
    ChargeStatus.FAILED: "failed",
}
PROCESSOR = {charges.INSUFFICIENT_FUNDS: "Insufficient Funds", charges.DECLINED: "Declined"}
TRANSFER_STATUS = {
    TransferStatus.PROCESSING: "PENDING",
    TransferStatus.SUCCESS: "SUCCESSFUL",
    TransferStatus.FAILED: "FAILED",
    TransferStatus.REVERSED: "REVERSED",
}
TOO_LITTLE = Denial(400, "Minimum transfer amount is 500")
NO_REFUND = Denial(400, "Refund could not be processed")
DENIALS = Denials(
    duplicate=Denial(400, "Duplicate reference"),
    insufficient=Denial(400, "Insufficient wallet balance to complete this transfer"),
    unresolvable=Denial(400, "Account resolve failed"),
    unknown_bank=Denial(400, "Account resolve failed"),
    not_found=Denial(404, "Transaction not found"),
    others=(TOO_LITTLE,),
)


def open_link(provider: Provider, ask: Ask) -> Answer:
    ask.fields.currency()
    customer, shown = ask.fields.group("customer"), ask.fields.group("customizations")
    order = charges.Order(
        reference=ask.fields.reference("tx_ref"),
        amount=ask.fields.amount(),
        customer_name=customer.text("name"),
        customer_email=customer.text("email"),
        title=shown.optional_text("title"),
        redirect_url=ask.fields.address("redirect_url"),
    )
    charge = charges.open_charge(provider, order)
    return Answer({"link": f"{provider.base_url}/checkout/{charge.token}"}, "Hosted Link")


def verify(provider: Provider, ask: Ask) -> Answer:
    charge = charges.find(provider, ask.query_text("tx_ref"))
    data = {
        "id": charge.number,
        "tx_ref": charge.reference,
        "status": CHARGE_STATUS[charge.status],
        "amount": charge.amount.amount,
        "charged_amount": charge.amount_paid.amount,
        "app_fee": charge.fee.amount,
        "currency": CURRENCY,
        "processor_response": _processor_response(charge),
    }
    return Answer(data, "Transaction fetched successfully")


def _processor_response(charge: Charge) -> str:
    if charge.status is ChargeStatus.SUCCESS:
        return "Approved"
    if charge.status is ChargeStatus.FAILED:
        return PROCESSOR.get(charge.reason, charge.reason)
    return "Pending"


def refund(provider: Provider, ask: Ask) -> Answer:
    """Completes the refund immediately, because refunds have no status call and no webhook."""
    number = ask.parameters["id"]
    charge = provider.charges.by_number.get(int(number) if number.isdecimal() else 0)
    if charge is None:
        raise Refused(DENIALS.not_found)
    if provider.faults.refunds is RefundOutcome.FAILED:
        raise Refused(NO_REFUND)
    accepted = refunds.accept(provider, ask.fields.reference(), charge, ask.fields.amount())
    if provider.faults.refunds is RefundOutcome.SUCCESS:
        refunds.settle(provider, accepted, RefundStatus.SUCCESS)
    data = {
        "id": accepted.number,
        "status": "completed" if accepted.status is RefundStatus.SUCCESS else "pending",
        "amount_refunded": accepted.amount.amount,
    }
    return Answer(data, "Transaction refund initiated")


def list_banks(provider: Provider, _ask: Ask) -> Answer:
    listed = [
        {"id": number, "code": bank.code, "name": bank.name}
        for number, bank in enumerate(provider.wire.banks.values(), start=101)
    ]
    return Answer(listed, "Banks fetched successfully")


def resolve(provider: Provider, ask: Ask) -> Answer:
    account_number = ask.fields.digits("account_number", 10)
    _, holder = transfers.resolve(provider, ask.fields.text("account_bank"), account_number)
    data = {"account_number": account_number, "account_name": holder}
    return Answer(data, "Account details fetched")


def balance(provider: Provider, _ask: Ask) -> Answer:
    data = {
        "currency": CURRENCY,
        "available_balance": provider.wallet.available.amount,
        "ledger_balance": provider.wallet.ledger.amount,
    }
    return Answer(data, "Wallet balance fetched")


def transfer(provider: Provider, ask: Ask) -> Answer:
    fields = ask.fields
    fields.currency()
    if fields.optional_text("debit_currency"):
        fields.currency("debit_currency")
    order = transfers.Order(
        reference=fields.reference(),
        amount=fields.amount(),
        bank_code=fields.text("account_bank"),
        account_number=fields.digits("account_number", 10),
        narration=fields.optional_text("narration"),
        callback_url=fields.address("callback_url"),
    )
    transfers.refuse_duplicate(provider, order.reference)
    if order.amount < MINIMUM_TRANSFER:
        raise Refused(TOO_LITTLE)
    accepted = transfers.accept(provider, order)
    data = {
        "id": accepted.number,
        "reference": accepted.reference,
        "status": "NEW",
        "fee": accepted.fee.amount,
        "bank_name": accepted.bank_name,
        "complete_message": "",
    }
    return Answer(data, "Transfer Queued Successfully")


def find_transfers(provider: Provider, ask: Ask) -> Answer:
    found = provider.transfers.get(ask.query_text("reference"))
    listed = []
    if found is not None:
        listed.append(
            {
                "id": found.number,
                "reference": found.reference,
                "status": TRANSFER_STATUS[found.status],
                "amount": found.amount.amount,
                "fee": found.fee.amount,
                "complete_message": found.reason,
            }
        )
    return Answer(listed, "Transfers fetched")


def charge_notice(_provider: Provider, charge: Charge) -> Notice:
    paid = charge.status is ChargeStatus.SUCCESS
    data = {
        "id": charge.number,
        "tx_ref": charge.reference,
        "status": CHARGE_STATUS[charge.status],
        "amount": (charge.amount_paid if paid else charge.amount).amount,
        "currency": CURRENCY,
        "complete_message": _processor_response(charge),
    }
    return Notice("charge.completed", charge.reference, {"event": "charge.completed", "data": data})


def transfer_notice(_provider: Provider, settled: Transfer) -> Notice:
    data = {
        "id": settled.number,
        "reference": settled.reference,
        "status": TRANSFER_STATUS[settled.status],
        "amount": settled.amount.amount,
        "currency": CURRENCY,
        "complete_message": settled.reason,
    }
    body = {"event": "transfer.completed", "data": data}
    return Notice("transfer.completed", settled.reference, body, settled.callback_url)


def envelope(_provider: Provider, answer: Answer) -> dict[str, Any]:
    return {"status": "success", "message": answer.message, "data": answer.data}


def error_envelope(denial: Denial) -> dict[str, Any]:
    return {"status": "error", "message": denial.message, "data": None}


def authenticate(provider: Provider, headers: Mapping[str, str]) -> None:
    require_bearer(headers, _account(provider).secret_key)


def _account(provider: Provider) -> CredentialsC:
    assert isinstance(provider.account, CredentialsC)
    return provider.account


WIRE = Wire(
    key="c",
    name="providerc",
    title="Provider C",
    account=lambda settings: settings.c,
    account_prefix="97",
    banks=banks.PROVIDER_C,
    fees=fees.PROVIDER_C,
    denials=DENIALS,
    calls=(
        Call(CallName.CHARGE, "POST", "/v3/payments", open_link),
        Call(CallName.CHARGE_STATUS, "GET", "/v3/transactions/verify_by_reference", verify),
        Call(CallName.REFUND, "POST", "/v3/transactions/{id}/refund", refund),
        Call(CallName.BANKS, "GET", "/v3/banks/NG", list_banks),
        Call(CallName.RESOLVE, "POST", "/v3/accounts/resolve", resolve),
        Call(CallName.BALANCE, "GET", "/v3/balances/NGN", balance),
        Call(CallName.TRANSFER, "POST", "/v3/transfers", transfer),
        Call(CallName.TRANSFER_STATUS, "GET", "/v3/transfers", find_transfers),
    ),
    envelope=envelope,
    error_envelope=error_envelope,
    authenticate=authenticate,
    sign=hmac_of_body("X-ProviderC-Signature", "sha256"),
    webhook_secret=lambda account: account.webhook_secret,
    charge_notice=charge_notice,
    transfer_notice=transfer_notice,
    refund_notice=lambda _provider, _refund: None,
    return_query=lambda charge, canceled: {
        "tx_ref": charge.reference,
        "status": "cancelled" if canceled else CHARGE_STATUS[charge.status],
    },
)
