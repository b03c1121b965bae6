"""Simulates charges. The platform creates a charge, which is then paid or declined, or expires."""

import asyncio
import secrets
from datetime import datetime, timedelta
from urllib.parse import urlencode, urlsplit, urlunsplit

import msgspec

from manilla.kit import ids
from manilla.kit.money import Money
from manilla_simulator.banks import Bank
from manilla_simulator.provider import Provider
from manilla_simulator.state import CHARGE_NEXT, NOTHING, Charge, ChargeStatus, VirtualAccount, now
from manilla_simulator.transfers import NotPossible
from manilla_simulator.wire import Refused

INSUFFICIENT_FUNDS = "insufficient_funds"
DECLINED = "declined"


class NotExact(NotPossible):
    """The virtual account returned the money, because it accepts only the exact amount."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    reference: str
    amount: Money
    customer_name: str
    customer_email: str
    title: str = ""
    redirect_url: str | None = None
    notification_url: str | None = None
    # The banks of the virtual accounts. A charge with a hosted page has no banks.
    banks: tuple[Bank, ...] = ()
    account_name: str = ""  # the virtual account's name, or an empty string for the default name
    # If True, the customer pays the provider's fee in addition to the amount.
    customer_pays_fee: bool = False
    # If None, the charge expires after the default time in the simulator's settings.
    expires_at: datetime | None = None


def open_charge(provider: Provider, order: Order) -> Charge:
    denials = provider.wire.denials
    if provider.charges.get(order.reference) is not None:
        raise Refused(denials.duplicate_charge or denials.duplicate)
    opened = now()
    fee = provider.wire.fees.of_charge(order.amount)
    charge = Charge(
        reference=order.reference,
        number=next(provider.numbers),
        token=ids.new_key(),
        amount=order.amount,
        title=order.title,
        customer_name=order.customer_name,
        customer_email=order.customer_email,
        redirect_url=order.redirect_url,
        notification_url=order.notification_url,
        is_hosted=not order.banks,
        surcharge=fee if order.customer_pays_fee else NOTHING,
        accounts=tuple(_new_account(provider, order, bank) for bank in order.banks),
        created_at=opened,
        expires_at=order.expires_at
        or opened + timedelta(minutes=provider.settings.account_minutes),
    )
    provider.charges.put(charge)
    return charge


def add_account(provider: Provider, charge: Charge, order: Order) -> VirtualAccount:
    """Opens a virtual account for a charge that so far has only a hosted payment page."""
    account = _new_account(provider, order, order.banks[0])
    charge.accounts = (*charge.accounts, account)
    provider.charges.put(charge)
    return account


def new_number(provider: Provider) -> str:
    """Returns an account number that no other account has."""
    used = {each.account_number for each in provider.accounts.select()}
    while True:
        number = f"{provider.wire.account_prefix}{secrets.randbelow(10**8):08d}"
        if number not in provider.charges.by_account and number not in used:
            return number


def _new_account(provider: Provider, order: Order, bank: Bank) -> VirtualAccount:
    number = new_number(provider)
    holder = order.account_name or f"{provider.wire.title} / {order.customer_name}"
    return VirtualAccount(number, holder, bank.code, bank.name)


def find(provider: Provider, reference: str) -> Charge:
    charge = provider.charges.get(reference)
    if charge is None:
        raise Refused(provider.wire.denials.charge_not_found or provider.wire.denials.not_found)
    return refreshed(charge)


def refreshed(charge: Charge) -> Charge:
    """Marks a charge as expired if it is overdue. Providers send no webhook about this."""
    if charge.status is ChargeStatus.PENDING and now() >= charge.expires_at:
        charge.status = ChargeStatus.EXPIRED
    return charge


def pay(
    provider: Provider, charge: Charge, amount: Money | None = None, *, insist: bool = False
) -> None:
    paid = amount or charge.expected
    if charge.accounts and provider.wire.returns_amount(provider, charge, paid):
        provider.outbox.put_if_any(provider.wire.returned_notice(provider, charge, paid))
        raise NotExact(f"This account accepts exactly {charge.expected}.")
    _change(provider, charge, ChargeStatus.SUCCESS, insist=insist, paid=paid)


def pay_later(provider: Provider, charge: Charge, seconds: float) -> None:
    """Pays the charge after a delay, unless the charge has been paid or declined by then."""

    def arrive() -> None:
        if refreshed(charge).status is ChargeStatus.PENDING:
            pay(provider, charge)

    charge.timer = asyncio.get_running_loop().call_later(seconds, arrive)


def decline(provider: Provider, charge: Charge, reason: str, *, insist: bool = False) -> None:
    _change(provider, charge, ChargeStatus.FAILED, insist=insist, reason=reason)


def expire(charge: Charge) -> None:
    if ChargeStatus.EXPIRED not in CHARGE_NEXT[charge.status]:
        raise NotPossible(f"A charge with status {charge.status} cannot expire.")
    charge.status = ChargeStatus.EXPIRED
    charge.expires_at = now()


def _change(
    provider: Provider,
    charge: Charge,
    status: ChargeStatus,
    *,
    insist: bool,
    paid: Money = NOTHING,
    reason: str = "",
) -> None:
    if status not in CHARGE_NEXT[charge.status] and not insist:
        raise NotPossible(f"A charge cannot change from {charge.status} to {status}.")
    credited = charge.credited
    charge.status = status
    charge.provider_status = ""
    charge.amount_paid = paid
    charge.fee = charge.surcharge if charge.surcharge.minor else _fee(provider, paid)
    charge.reason = reason
    charge.paid_at = now() if status is ChargeStatus.SUCCESS else None
    provider.adjust(charge, charge.credited - credited)
    provider.outbox.put_if_any(provider.wire.charge_notice(provider, charge))


def _fee(provider: Provider, paid: Money) -> Money:
    return provider.wire.fees.of_charge(paid)


def return_address(provider: Provider, charge: Charge, *, canceled: bool = False) -> str | None:
    """Returns the URL that the customer returns to, including the provider's query parameters."""
    if charge.redirect_url is None:
        return None
    added = urlencode(provider.wire.return_query(charge, canceled))
    parts = urlsplit(charge.redirect_url)
    query = f"{parts.query}&{added}" if parts.query else added
    return urlunsplit(parts._replace(query=query))
