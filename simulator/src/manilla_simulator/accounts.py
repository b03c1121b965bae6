"""Simulates permanent accounts of customers, and the transfers into them."""

import secrets
from typing import Any

import msgspec

from manilla.kit import ids
from manilla.kit.money import Money
from manilla_simulator.banks import Bank
from manilla_simulator.charges import new_number
from manilla_simulator.provider import Provider
from manilla_simulator.state import (
    AccountStatus,
    Charge,
    ChargeStatus,
    PermanentAccount,
    TransferPayer,
    VirtualAccount,
    now,
)
from manilla_simulator.transfers import NotPossible
from manilla_simulator.wire import Denial, Refused

# A customer with this name fails the provider's verification.
MISMATCH = "Mismatch"
ZERO_BVN = "00000000000"


class NewAccount(msgspec.Struct, frozen=True, kw_only=True):
    reference: str
    name: str
    email: str
    bank: Bank
    status: AccountStatus = AccountStatus.ACTIVE
    holder: str = ""  # the provider's id of the customer


def open_account(provider: Provider, wanted: NewAccount) -> PermanentAccount:
    account = PermanentAccount(
        reference=wanted.reference,
        number=next(provider.numbers),
        account_number=new_number(provider),
        account_name=f"{provider.wire.title.upper()}/{wanted.name.upper()}",
        bank_code=wanted.bank.code,
        bank_name=wanted.bank.name,
        email=wanted.email,
        holder=wanted.holder,
        status=wanted.status,
        created_at=now(),
    )
    provider.accounts.put(account)
    return account


def find(provider: Provider, reference: str, denial: Denial) -> PermanentAccount:
    account = provider.accounts.get(reference)
    if account is None:
        raise Refused(denial)
    return account


def with_number(provider: Provider, number: str) -> PermanentAccount:
    """Returns the account that has the number now, or had it last."""
    found = [each for each in provider.accounts.select() if each.account_number == number]
    active = [each for each in found if each.status is AccountStatus.ACTIVE]
    if not found:
        raise NotPossible(f"There is no account {number}.")
    return (active or found)[0]


def transfer(
    provider: Provider, account: PermanentAccount, amount: Money, payer: TransferPayer
) -> Charge:
    """Credits a transfer, as a charge under a reference of the provider's own."""
    number, moment = next(provider.numbers), now()
    charge = Charge(
        reference=provider.wire.transfer_reference(number),
        number=number,
        token=ids.new_key(),
        amount=amount,
        title="",
        customer_name=account.account_name,
        customer_email=account.email,
        is_hosted=False,
        status=ChargeStatus.SUCCESS,
        amount_paid=amount,
        fee=provider.wire.fees.of_charge(amount),
        created_at=moment,
        expires_at=moment,
        paid_at=moment,
        permanent=account,
        payer=payer,
        accounts=(
            VirtualAccount(
                account.account_number, account.account_name, account.bank_code, account.bank_name
            ),
        ),
    )
    provider.charges.put(charge)
    provider.adjust(charge, charge.credited)
    provider.outbox.put_if_any(provider.wire.charge_notice(provider, charge))
    return charge


def transfers_into(provider: Provider, account: PermanentAccount) -> list[Charge]:
    """Returns the paid transfers into the account, newest first."""
    return [each for each in provider.charges.select() if each.permanent is account]


def session_id() -> str:
    return "".join(secrets.choice("0123456789") for _ in range(30))


def view(account: PermanentAccount) -> dict[str, Any]:
    names = ("reference", "number", "account_number", "account_name", "email", "holder", "status")
    return {name: getattr(account, name) for name in names}
