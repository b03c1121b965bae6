"""Simulates mandates: a customer agrees that a bank account is debited later (direct debit)."""

import msgspec

from manilla.kit import ids
from manilla.kit.money import Money
from manilla_simulator import charges
from manilla_simulator.charges import Order
from manilla_simulator.provider import Provider
from manilla_simulator.state import (
    NOTHING,
    Charge,
    ChargeStatus,
    Mandate,
    MandateStatus,
    now,
)
from manilla_simulator.transfers import NotPossible

OPEN = (MandateStatus.PENDING, MandateStatus.ACTIVE, MandateStatus.SUSPENDED)
MANDATE_NEXT: dict[MandateStatus, frozenset[MandateStatus]] = {
    MandateStatus.PENDING: frozenset(MandateStatus) - {MandateStatus.PENDING},
    MandateStatus.ACTIVE: frozenset(
        (MandateStatus.SUSPENDED, MandateStatus.CANCELED, MandateStatus.EXPIRED)
    ),
    MandateStatus.SUSPENDED: frozenset(
        (MandateStatus.ACTIVE, MandateStatus.CANCELED, MandateStatus.EXPIRED)
    ),
    MandateStatus.FAILED: frozenset(),
    MandateStatus.CANCELED: frozenset(),
    MandateStatus.EXPIRED: frozenset(),
}


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    reference: str
    amount: Money
    customer_name: str
    customer_email: str
    customer_phone: str
    customer_address: str
    account_number: str
    bank_code: str
    description: str
    starts_at: str
    ends_at: str
    redirect_url: str | None = None


class SetMandateStatus(msgspec.Struct, forbid_unknown_fields=True):
    status: MandateStatus


def create(provider: Provider, terms: Terms) -> Mandate:
    number = next(provider.numbers)
    mandate = Mandate(
        **msgspec.structs.asdict(terms),
        number=number,
        code=f"MTDD|{ids.random_base32(26)}",
        token=ids.new_key(),
        created_at=now(),
    )
    provider.mandates.put(mandate)
    return mandate


def by_code(provider: Provider, code: str) -> Mandate | None:
    return next((each for each in provider.mandates.select() if each.code == code), None)


def by_token(provider: Provider, token: str) -> Mandate | None:
    return next((each for each in provider.mandates.select() if each.token == token), None)


def change(provider: Provider, mandate: Mandate, status: MandateStatus) -> None:
    if status not in MANDATE_NEXT[mandate.status]:
        raise NotPossible(f"A mandate cannot change from {mandate.status} to {status}.")
    mandate.status = status
    provider.outbox.put_if_any(provider.wire.mandate_notice(provider, mandate))


def debited(provider: Provider, mandate: Mandate) -> Money:
    """Returns what the mandate's debits have taken, or may still take."""
    kept = (ChargeStatus.PENDING, ChargeStatus.SUCCESS)
    total = NOTHING
    for charge in provider.charges.select():
        if charge.mandate is mandate and charge.status in kept:
            total += charge.amount
    return total


def debit(provider: Provider, mandate: Mandate, order: Order) -> Charge:
    charge = charges.open_charge(provider, order)
    charge.is_hosted = False
    charge.mandate = mandate
    charges.pay_later(provider, charge, provider.faults.settle_seconds)
    return charge
