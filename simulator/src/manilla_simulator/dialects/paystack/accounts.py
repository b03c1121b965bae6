"""Simulates Paystack's dedicated accounts: one call, whose result comes as an event."""

import asyncio
from typing import Any

from manilla_simulator import accounts as core
from manilla_simulator import banks
from manilla_simulator.dialects.formats import iso_milliseconds
from manilla_simulator.dialects.paystack.common import INVALID_EMAIL, UNKNOWN_CHARGE, page_of
from manilla_simulator.dialects.paystack.payments import charge_data
from manilla_simulator.provider import Provider
from manilla_simulator.state import AccountStatus, PermanentAccount
from manilla_simulator.wire import Answer, Ask, Denial, Notice, Refused

BANKS = {
    "wema-bank": banks.PAYSTACK["035"],
    "titan-paystack": banks.PAYSTACK["035"],
    "test-bank": banks.PAYSTACK["001"],
}
UNKNOWN_CUSTOMER = Denial(404, "Customer not found", "customer_not_found")
UNKNOWN_ACCOUNT = Denial(404, "Dedicated account not found", "not_found")
UNKNOWN_PROVIDER = Denial(400, "Preferred bank is not supported", "invalid_params")
ASSIGNED = Denial(400, "Customer already has a dedicated account", "duplicate_dedicated_account")


def assign(provider: Provider, ask: Ask) -> Answer:
    """Creates a customer and its account. The customer is identified by the email address."""
    fields = ask.fields.only(
        *("email", "first_name", "last_name", "phone", "preferred_bank", "country"),
        *("account_number", "bank_code", "bvn", "split_code", "subaccount"),
    )
    try:
        email = fields.email("email")
    except Refused:
        raise Refused(INVALID_EMAIL) from None
    name = f"{fields.text('first_name')} {fields.text('last_name')}"
    fields.text("phone")
    bank = BANKS.get(fields.text("preferred_bank"))
    if bank is None or fields.text("country") != "NG":
        raise Refused(UNKNOWN_PROVIDER)
    if provider.accounts.get(email) is not None:
        raise Refused(ASSIGNED)
    wanted = core.NewAccount(
        reference=email, name=name, email=email, bank=bank, status=AccountStatus.PENDING
    )
    account = core.open_account(provider, wanted)
    account.holder = f"CUS_{account.number:x}"
    status = AccountStatus.FAILED if core.MISMATCH in name else AccountStatus.ACTIVE
    account.timer = asyncio.get_running_loop().call_later(
        provider.faults.settle_seconds, lambda: _decide(provider, account, status)
    )
    return Answer(None, "Assign dedicated account in progress")


def _decide(provider: Provider, account: PermanentAccount, status: AccountStatus) -> None:
    account.status = status
    event = "success" if status is AccountStatus.ACTIVE else "failed"
    data = {
        "customer": customer_of(account),
        "dedicated_account": _dedicated(account),
        "identification": {"status": event},
    }
    name = f"dedicatedaccount.assign.{event}"
    provider.outbox.put(Notice(name, account.reference, {"event": name, "data": data}))


def fetch_customer(provider: Provider, ask: Ask) -> Answer:
    account = core.find(provider, ask.parameters["email"], UNKNOWN_CUSTOMER)
    data = {**customer_of(account), "dedicated_account": _dedicated(account)}
    return Answer(data, "Customer retrieved")


def deactivate(provider: Provider, ask: Ask) -> Answer:
    number = ask.parameters["id"]
    found = [each for each in provider.accounts.select() if str(each.number) == number]
    if not found:
        raise Refused(UNKNOWN_ACCOUNT)
    found[0].status = AccountStatus.CLOSED
    return Answer(_dedicated(found[0]), "Managed Account Successfully Unassigned")


def list_transactions(provider: Provider, ask: Ask) -> Answer:
    """Lists a customer's successful charges, newest first."""
    customer_id = ask.query_text("customer")
    matching = [
        charge
        for charge in provider.charges.select()
        if charge.permanent is not None and str(charge.permanent.number) == customer_id
    ]
    page, meta = page_of(ask, matching)
    listed = [charge_data(provider, charge) for charge in page]
    return Answer(listed, "Transactions retrieved", more={"meta": meta})


def fetch_transaction(provider: Provider, ask: Ask) -> Answer:
    number = ask.parameters["id"]
    charge = provider.charges.by_number.get(int(number)) if number.isdecimal() else None
    if charge is None:
        raise Refused(UNKNOWN_CHARGE)
    return Answer(charge_data(provider, charge), "Transaction retrieved")


def customer_of(account: PermanentAccount) -> dict[str, Any]:
    return {
        "id": account.number,
        "first_name": None,
        "last_name": None,
        "email": account.email,
        "customer_code": account.holder,
        "phone": None,
    }


def _dedicated(account: PermanentAccount) -> dict[str, Any] | None:
    if account.status in (AccountStatus.PENDING, AccountStatus.FAILED):
        return None
    is_active = account.status is AccountStatus.ACTIVE
    return {
        "bank": {"name": account.bank_name, "id": 20, "slug": "wema-bank"},
        "account_name": account.account_name,
        "account_number": account.account_number,
        "assigned": is_active,
        "currency": "NGN",
        "active": is_active,
        "id": account.number,
        "assignment": {
            "assignee_id": account.number,
            "account_type": "PAY-WITH-TRANSFER-RECURRING",
            "assigned_at": iso_milliseconds(account.created_at),
            "expired": False,
        },
    }
