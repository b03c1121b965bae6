"""Simulates Flutterwave's permanent virtual accounts.

All transfers into an account have its `tx_ref`. A used `tx_ref` creates another account, because
Flutterwave does not document that it rejects one.
"""

from typing import Any

from manilla_simulator import accounts as core
from manilla_simulator import banks
from manilla_simulator.dialects.flutterwave.payments import charge_data, open_one_time_account
from manilla_simulator.provider import Provider
from manilla_simulator.state import AccountStatus, PermanentAccount
from manilla_simulator.wire import Answer, Ask, Denial, Fields, Refused

BANK = banks.FLUTTERWAVE["035"]
PAGE_SIZE = 20
NO_MATCH = Denial(400, "BVN could not be validated for the supplied name")
UNKNOWN = Denial(404, "Virtual account not found")


def create(provider: Provider, ask: Ask) -> Answer:
    fields = ask.fields.only(
        *("email", "is_permanent", "bvn", "tx_ref", "amount", "narration", "duration"),
        *("frequency", "phonenumber", "firstname", "lastname", "currency"),
    )
    if fields.flag("is_permanent", default=False):
        return _open_account(provider, fields)
    return open_one_time_account(provider, fields)


def _open_account(provider: Provider, fields: Fields) -> Answer:
    fields.digits("bvn", 11)
    name = f"{fields.text('firstname')} {fields.text('lastname')}"
    if core.MISMATCH in name:
        raise Refused(NO_MATCH)
    wanted = core.NewAccount(
        reference=f"URF_{next(provider.numbers)}",
        name=name,
        email=fields.email("email"),
        bank=BANK,
        holder=fields.reference("tx_ref"),
    )
    return Answer(_account(core.open_account(provider, wanted)), "Virtual account created")


def fetch(provider: Provider, ask: Ask) -> Answer:
    account = core.find(provider, ask.parameters["order_ref"], UNKNOWN)
    return Answer(_account(account), "Virtual account fetched")


def deactivate(provider: Provider, ask: Ask) -> Answer:
    account = core.find(provider, ask.parameters["order_ref"], UNKNOWN)
    ask.fields.only("status")
    account.status = AccountStatus.CLOSED
    return Answer(None, "Virtual account updated successfully")


def list_transactions(provider: Provider, ask: Ask) -> Answer:
    tx_ref = ask.query.get("tx_ref", "")
    found = [
        each
        for each in provider.charges.select()
        if each.permanent is not None and tx_ref in ("", each.permanent.holder)
    ]
    number, size = ask.page("page_size", PAGE_SIZE)
    page, pages = found[(number - 1) * size : number * size], -(-len(found) // size)
    info = {"total": len(found), "current_page": number, "total_pages": pages}
    listed = [charge_data(provider, each) for each in page]
    return Answer(listed, "Transactions fetched", more={"meta": {"page_info": info}})


def _account(account: PermanentAccount) -> dict[str, Any]:
    return {
        "response_code": "02",
        "response_message": "Transaction in progress",
        "flw_ref": f"FLW-{account.number}",
        "order_ref": account.reference,
        "account_number": account.account_number,
        "frequency": "N/A",
        "bank_name": account.bank_name.upper(),
        "created_at": f"{account.created_at:%Y-%m-%d %H:%M:%S}",
        "expiry_date": "N/A",
        "note": f"Please make a bank transfer to {account.account_name}",
        "amount": None,
    }
