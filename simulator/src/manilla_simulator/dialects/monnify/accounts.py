"""Simulates Monnify's reserved accounts. Transfers into them have references of Monnify's."""

from typing import Any

from manilla_simulator import accounts as core
from manilla_simulator import banks
from manilla_simulator.dialects.monnify.common import (
    UNKNOWN_CONTRACT,
    account_of,
    page_of,
)
from manilla_simulator.dialects.monnify.payments import transaction
from manilla_simulator.provider import Provider
from manilla_simulator.state import AccountStatus, PermanentAccount
from manilla_simulator.wire import Answer, Ask, Denial, Refused, invalid

USED = Denial(422, "You can not reserve two accounts with the same reference.", "99")
NO_MATCH = Denial(422, "BVN does not match the supplied customer name", "99")
UNKNOWN = Denial(404, "Cannot find reserved account with the supplied reference", "99")


def reserve(provider: Provider, ask: Ask) -> Answer:
    fields = ask.fields.only(
        *("accountReference", "accountName", "currencyCode", "contractCode", "customerEmail"),
        *("customerName", "bvn", "nin", "getAllAvailableBanks", "preferredBanks"),
        *("incomeSplitConfig", "restrictPaymentSource", "allowedPaymentSources"),
    )
    fields.currency("currencyCode")
    reference, name = fields.text("accountReference"), fields.text("customerName")
    if fields.text("contractCode") != account_of(provider).contract_code:
        raise Refused(UNKNOWN_CONTRACT)
    if "bvn" not in fields and "nin" not in fields:
        raise invalid("bvn or nin is required", "bvn")
    for identity in ("bvn", "nin"):
        if identity in fields:
            fields.digits(identity, 11)
    if provider.accounts.get(reference) is not None:
        raise Refused(USED)
    if core.MISMATCH in name:
        raise Refused(NO_MATCH)
    wanted = core.NewAccount(
        reference=reference,
        name=name,
        email=fields.email("customerEmail"),
        bank=banks.MONNIFY[fields.texts("preferredBanks")[0]],
    )
    return Answer(_account(core.open_account(provider, wanted)), "success")


def fetch(provider: Provider, ask: Ask) -> Answer:
    account = core.find(provider, ask.parameters["accountReference"], UNKNOWN)
    return Answer(_account(account), "success")


def deallocate(provider: Provider, ask: Ask) -> Answer:
    account = core.find(provider, ask.parameters["accountReference"], UNKNOWN)
    account.status = AccountStatus.CLOSED
    return Answer(_account(account), "success")


def list_transfers(provider: Provider, ask: Ask) -> Answer:
    account = core.find(provider, ask.query_text("accountReference"), UNKNOWN)
    body = page_of(ask, core.transfers_into(provider, account), "page", "size")
    content = [transaction(provider, each) for each in body["content"]]
    return Answer({**body, "content": content}, "success")


def _account(account: PermanentAccount) -> dict[str, Any]:
    number = {
        "bankCode": account.bank_code,
        "bankName": account.bank_name,
        "accountNumber": account.account_number,
        "accountName": account.account_name,
    }
    return {
        "contractCode": "100693167467",
        "accountReference": account.reference,
        "accountName": account.account_name,
        "currencyCode": "NGN",
        "customerEmail": account.email,
        "customerName": account.account_name,
        "accounts": [number],
        "collectionChannel": "RESERVED_ACCOUNT",
        "reservationReference": f"RSV{account.number}",
        "reservedAccountType": "GENERAL",
        "status": "ACTIVE" if account.status is AccountStatus.ACTIVE else "INACTIVE",
        "createdOn": f"{account.created_at:%Y-%m-%d %H:%M:%S.%f}864",  # nine decimals, no zone
        "restrictPaymentSource": False,
    }
