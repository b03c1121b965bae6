"""The contract of provider B, a bank with virtual accounts.

Amounts are strings, and the status of a transfer must be polled.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

from manilla.kit import clock
from manilla_simulator import banks, charges, fees, transfers
from manilla_simulator.banks import Bank
from manilla_simulator.faults import CallName
from manilla_simulator.provider import Provider
from manilla_simulator.settings import CredentialsB
from manilla_simulator.signatures import hmac_of_body
from manilla_simulator.state import (
    CURRENCY,
    Charge,
    ChargeStatus,
    Transfer,
    TransferStatus,
    VirtualAccount,
)
from manilla_simulator.wire import (
    UNAUTHORIZED,
    Answer,
    Ask,
    Call,
    Denial,
    Denials,
    Notice,
    Refused,
    Wire,
    envelope,
    error_envelope,
    is_same,
    returns_every_other_amount,
)

CHARGE_STATUS = {
    ChargeStatus.PENDING: "PENDING",
    ChargeStatus.EXPIRED: "PENDING",  # Provider B has no status for expired charges.
    ChargeStatus.SUCCESS: "SUCCESS",
    ChargeStatus.FAILED: "FAILED",
}
REASONS = {charges.INSUFFICIENT_FUNDS: "Insufficient funds", charges.DECLINED: "Declined"}
TRANSFER_STATUS = {
    TransferStatus.PROCESSING: "pending",
    TransferStatus.SUCCESS: "success",
    TransferStatus.FAILED: "failed",
    TransferStatus.REVERSED: "reversed",
}
DENIALS = Denials(
    duplicate=Denial(400, "Transfer reference already exists"),
    insufficient=Denial(400, "Insufficient wallet balance"),
    unresolvable=Denial(400, "Account validation failed"),
    unknown_bank=Denial(400, "Invalid bank code"),
    not_found=Denial(404, "Transaction not found"),
    others=(
        Denial(403, "Transfers are not enabled for this business"),
        Denial(403, "IP not whitelisted"),
    ),
)


def initialize(provider: Provider, ask: Ask) -> Answer:
    _check_business(provider, ask)
    ask.fields.currency()
    order = charges.Order(
        reference=ask.fields.reference(),
        amount=ask.fields.amount_text(),
        customer_name=ask.fields.text("name"),
        customer_email=ask.fields.text("email"),
        redirect_url=ask.fields.address("redirect_url"),
    )
    charge = charges.open_charge(provider, order)
    data = {
        "checkout_url": f"{provider.base_url}/checkout/{charge.token}",
        "access_code": charge.token,
        "transaction_ref": charge.reference,
    }
    return Answer(data, "Transaction initialized")


def confirm(provider: Provider, ask: Ask) -> Answer:
    charge = charges.find(provider, ask.parameters["reference"])
    paid = charge.status is ChargeStatus.SUCCESS
    data = {
        "reference": charge.reference,
        "status": CHARGE_STATUS[charge.status],
        "amount": str((charge.amount_paid if paid else charge.amount).amount),
        "fee": str(charge.fee.amount),
        "currency": CURRENCY,
        "reason": REASONS.get(charge.reason, charge.reason) or None,
    }
    return Answer(data, "Transaction retrieved")


def reserve_account(provider: Provider, ask: Ask) -> Answer:
    _check_business(provider, ask)
    if ask.fields.text("account_type") != "DYNAMIC":
        raise Refused(Denial(400, "account_type must be DYNAMIC"))
    order = charges.Order(
        reference=ask.fields.reference(),
        amount=ask.fields.amount_text(),
        customer_name=ask.fields.text("name"),
        customer_email=ask.fields.text("email"),
        banks=tuple(_bank(code) for code in ask.fields.texts("bankcode")),
    )
    charge = charges.open_charge(provider, order)
    listed = [_account_data(charge, account) for account in charge.accounts]
    return Answer({"banks": listed}, "Account reserved")


def _account_data(charge: Charge, account: VirtualAccount) -> dict[str, Any]:
    return {
        "bankName": account.bank_name,
        "bankCode": account.bank_code,
        "accountNumber": account.account_number,
        "accountName": account.account_name,
        "trackingReference": charge.reference,
        "expireDate": clock.iso(charge.expires_at),
    }


def _bank(code: str) -> Bank:
    bank = banks.PROVIDER_B.get(code)
    if bank is None:
        raise Refused(DENIALS.unknown_bank)
    return bank


def _check_business(provider: Provider, ask: Ask) -> None:
    if ask.fields.text("businessid") != _account(provider).business_id:
        raise Refused(Denial(400, "Invalid businessid"))


def list_banks(provider: Provider, _ask: Ask) -> Answer:
    listed = [
        {"bank_code": bank.code, "bank_name": bank.name, "is_active": True}
        for bank in provider.wire.banks.values()
    ]
    return Answer(listed, "Banks retrieved")


def validate_account(provider: Provider, ask: Ask) -> Answer:
    account_number = ask.fields.digits("account_number", 10)
    bank, holder = transfers.resolve(provider, ask.fields.text("bank_code"), account_number)
    data = {
        "account_name": holder,
        "name_enquiry_reference": enquiry_reference(bank.code, account_number),
    }
    return Answer(data, "Account validated")


def enquiry_reference(bank_code: str, account_number: str) -> str:
    """Derives the name enquiry's reference from the request, so a restart does not change it."""
    return "NER" + hashlib.sha256(f"{bank_code}/{account_number}".encode()).hexdigest()[:24].upper()


def balance(provider: Provider, _ask: Ask) -> Answer:
    data = {
        "available_balance": str(provider.wallet.available.amount),
        "ledger_balance": str(provider.wallet.ledger.amount),
    }
    return Answer(data, "Balance retrieved")


def transfer(provider: Provider, ask: Ask) -> Answer:
    order = transfers.Order(
        reference=ask.fields.reference(),
        amount=ask.fields.amount_text(),
        bank_code=ask.fields.text("bank_code"),
        account_number=ask.fields.digits("account_number", 10),
        narration=ask.fields.optional_text("narration"),
    )
    ask.fields.text("account_name")
    enquiry = ask.fields.text("name_enquiry_reference")
    transfers.refuse_duplicate(provider, order.reference)
    transfers.resolve(provider, order.bank_code, order.account_number)
    if enquiry != enquiry_reference(order.bank_code, order.account_number):
        raise Refused(DENIALS.unresolvable)
    accepted = transfers.accept(provider, order)
    data = {
        "reference": accepted.reference,
        "session_id": accepted.session_id,
        "status": TRANSFER_STATUS[accepted.status],
    }
    return Answer(data, "Transfer received")


def transfer_status(provider: Provider, ask: Ask) -> Answer:
    found = transfers.find(provider, ask.fields.reference())
    data = {
        "reference": found.reference,
        "session_id": found.session_id,
        "status": TRANSFER_STATUS[found.status],
        "reason": found.reason,
    }
    return Answer(data, "Transfer retrieved")


def charge_notice(_provider: Provider, charge: Charge) -> Notice | None:
    """Returns the webhook about a charge. Provider B reports only received payments."""
    if charge.status is not ChargeStatus.SUCCESS:
        return None
    body = {
        "transaction": {"reference": charge.reference},
        "order": {
            "amount": str(charge.amount_paid.amount),
            "settlement_amount": str(charge.credited.amount),
            "fee": str(charge.fee.amount),
            "currency": CURRENCY,
        },
        "customer": {"email": charge.customer_email},
        "message": "Payment successful",
        "code": "00",
    }
    return Notice("payment", charge.reference, body)


def transfer_notice(_provider: Provider, _transfer: Transfer) -> None:
    """Returns None, because provider B sends no webhooks about transfers."""


def authenticate(provider: Provider, headers: Mapping[str, str]) -> None:
    account, key, secret = _account(provider), headers.get("api-key"), headers.get("api-secret")
    is_key = is_same(key or "", account.api_key)
    if not (is_same(secret or "", f"Bearer {account.secret_key}") and is_key):
        raise Refused(UNAUTHORIZED)


def _account(provider: Provider) -> CredentialsB:
    assert isinstance(provider.account, CredentialsB)
    return provider.account


_WALLET = "/pms/api/external/request/wallet"
WIRE = Wire(
    key="b",
    name="providerb",
    title="Provider B",
    account=lambda settings: settings.b,
    account_prefix="98",
    banks=banks.PROVIDER_B,
    fees=fees.PROVIDER_B,
    denials=DENIALS,
    calls=(
        Call(CallName.CHARGE, "POST", "/pms/transactions/initialize/", initialize),
        Call(CallName.CHARGE_STATUS, "GET", "/pms/transactions/{reference}/confirm/", confirm),
        Call(
            CallName.CHARGE,
            "POST",
            "/pms/api/external/request/customerReservedAccount/",
            reserve_account,
        ),
        Call(CallName.BANKS, "GET", f"{_WALLET}/banks/", list_banks),
        Call(CallName.RESOLVE, "POST", f"{_WALLET}/validate-account/", validate_account),
        Call(CallName.BALANCE, "GET", f"{_WALLET}/balance/", balance),
        Call(CallName.TRANSFER, "POST", f"{_WALLET}/transfer/", transfer),
        Call(CallName.TRANSFER_STATUS, "POST", f"{_WALLET}/transfer-status/", transfer_status),
    ),
    envelope=envelope,
    error_envelope=error_envelope,
    authenticate=authenticate,
    sign=hmac_of_body("HTTP_PROVIDERB_SIGNATURE", "sha512"),
    webhook_secret=lambda account: account.webhook_secret or account.secret_key,
    charge_notice=charge_notice,
    transfer_notice=transfer_notice,
    returns_amount=returns_every_other_amount,
    refund_notice=lambda _provider, _refund: None,
    return_query=lambda charge, canceled: {
        "reference": charge.reference,
        **({"status": "cancelled"} if canceled else {}),
    },
)
