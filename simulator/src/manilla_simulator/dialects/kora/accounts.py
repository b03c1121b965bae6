"""Simulates Kora's virtual bank accounts, for any number of transfers."""

from typing import Any

from manilla_simulator import accounts as core
from manilla_simulator import banks
from manilla_simulator.dialects.formats import iso_milliseconds
from manilla_simulator.dialects.kora.common import is_test, own_reference
from manilla_simulator.provider import Provider
from manilla_simulator.state import AccountStatus, Charge, PermanentAccount
from manilla_simulator.wire import Answer, Ask, Denial, Refused

SANDBOX_BANK = banks.Bank("000", "Test Bank", "")
USED = Denial(409, "Account reference already exists")
NO_MATCH = Denial(400, "The BVN does not match the account name")
UNKNOWN = Denial(404, "Virtual bank account not found", "not_found")
UNKNOWN_BANK = Denial(400, "bank_code is not supported for virtual bank accounts")
PAGE_SIZE = 20


def create(provider: Provider, ask: Ask) -> Answer:
    fields = ask.fields.only(
        "account_name", "account_reference", "permanent", "bank_code", "customer", "kyc"
    )
    reference, name = fields.text("account_reference"), fields.text("account_name")
    customer = fields.group("customer").only("name", "email")
    kyc = fields.group("kyc").only("bvn", "nin")
    kyc.digits("bvn", 11)
    if not fields.flag("permanent", default=False):
        raise Refused(Denial(400, "Only permanent accounts are supported"))
    if provider.accounts.get(reference) is not None:
        raise Refused(USED)
    if core.MISMATCH in name:
        raise Refused(NO_MATCH)
    code = fields.text("bank_code")
    bank = SANDBOX_BANK if is_test(provider) and code == "000" else banks.KORA.get(code)
    if bank is None:
        raise Refused(UNKNOWN_BANK)
    wanted = core.NewAccount(
        reference=reference, name=customer.text("name"), email=customer.email("email"), bank=bank
    )
    account = core.open_account(provider, wanted)
    return Answer(_account(account), "Virtual bank account created successfully")


def fetch(provider: Provider, ask: Ask) -> Answer:
    account = core.find(provider, ask.parameters["account_reference"], UNKNOWN)
    return Answer(_account(account), "Virtual bank account retrieved successfully")


def list_transfers(provider: Provider, ask: Ask) -> Answer:
    number = ask.query_text("account_number")
    found = [
        each
        for each in provider.charges.select()
        if each.permanent is not None and each.accounts[0].account_number == number
    ]
    page, size = ask.page("limit", PAGE_SIZE)
    listed = [_transfer(each) for each in found[(page - 1) * size : page * size]]
    data = {
        "total_amount_received": str(sum(each.amount_paid.amount for each in found)),
        "account_number": number,
        "currency": "NGN",
        "transactions": listed,
        "pagination": {
            "page": page,
            "total": len(found),
            "pageCount": len(listed),
            "total_pages": -(-len(found) // size),
        },
    }
    return Answer(data, "Virtual bank account transactions retrieved successfully")


def details(charge: Charge) -> dict[str, Any]:
    """Returns the fields of a charge about the account and the payer, or none."""
    account = charge.permanent
    if account is None:
        return {}
    shown = {
        "account_name": account.account_name,
        "account_number": charge.accounts[0].account_number,
        "account_reference": account.reference,
        "bank_name": account.bank_name,
        "permanent": True,
    }
    both = {"virtual_bank_account": shown, "payer_bank_account": _payer(charge)}
    return {"virtual_bank_account_details": both}


def _payer(charge: Charge) -> dict[str, str]:
    return {
        "account_name": charge.payer.name,
        "account_number": charge.payer.account_number,
        "bank_name": charge.payer.bank,
    }


def _transfer(charge: Charge) -> dict[str, Any]:
    return {
        "reference": own_reference(charge),
        "status": "success",
        "amount": str(charge.amount_paid.amount),
        "fee": str(charge.fee.amount),
        "currency": "NGN",
        "description": "Transfer",
        "payer_bank_account": _payer(charge),
    }


def _account(account: PermanentAccount) -> dict[str, Any]:
    return {
        "account_name": account.account_name,
        "account_number": account.account_number,
        "bank_code": account.bank_code,
        "bank_name": account.bank_name,
        "account_reference": account.reference,
        "unique_id": f"KPY-VA-{account.number}",
        "account_status": "active" if account.status is AccountStatus.ACTIVE else "inactive",
        "created_at": iso_milliseconds(account.created_at),
        "currency": "NGN",
        "customer": {"name": account.account_name, "email": account.email},
    }
