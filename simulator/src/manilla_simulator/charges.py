"""Charges: created by the platform, then paid, declined or left to expire by the customer."""

import secrets
from datetime import timedelta
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
    """B's virtual accounts accept only the exact amount; the bank returns any other."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    reference: str
    amount: Money
    customer_name: str
    customer_email: str
    title: str = ""
    redirect_url: str | None = None
    notification_url: str | None = None
    banks: tuple[Bank, ...] = ()  # whose virtual account is opened; None: hosted page


def open_charge(provider: Provider, order: Order) -> Charge:
    if provider.charges.get(order.reference) is not None:
        raise Refused(provider.wire.denials.duplicate)
    opened = now()
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
        accounts=tuple(_open_account(provider, order, bank) for bank in order.banks),
        created_at=opened,
        expires_at=opened + timedelta(minutes=provider.settings.account_minutes),
    )
    provider.charges.put(charge)
    return charge


def _open_account(provider: Provider, order: Order, bank: Bank) -> VirtualAccount:
    # Each provider has its own prefix, so the number alone identifies the account.
    prefix = {"a": "99", "b": "98", "c": "97"}[provider.wire.key]
    while True:
        number = f"{prefix}{secrets.randbelow(10**8):08d}"
        if number not in provider.charges.by_account:
            break
    holder = f"{provider.wire.title} / {order.customer_name}"
    return VirtualAccount(number, holder, bank.code, bank.name)


def find(provider: Provider, reference: str) -> Charge:
    charge = provider.charges.get(reference)
    if charge is None:
        raise Refused(provider.wire.denials.not_found)
    return refreshed(charge)


def refreshed(charge: Charge) -> Charge:
    """Marks an expired charge when it is read: no provider sends a webhook about expiry."""
    if charge.status is ChargeStatus.PENDING and now() >= charge.expires_at:
        charge.status = ChargeStatus.EXPIRED
    return charge


def pay(
    provider: Provider, charge: Charge, amount: Money | None = None, *, insist: bool = False
) -> None:
    paid = amount or charge.amount
    if provider.wire.key == "b" and charge.accounts and paid != charge.amount:
        raise NotExact(f"This account accepts exactly {charge.amount}.")
    _change(provider, charge, ChargeStatus.SUCCESS, insist=insist, paid=paid)


def decline(provider: Provider, charge: Charge, reason: str, *, insist: bool = False) -> None:
    _change(provider, charge, ChargeStatus.FAILED, insist=insist, reason=reason)


def expire(charge: Charge) -> None:
    if ChargeStatus.EXPIRED not in CHARGE_NEXT[charge.status]:
        raise NotPossible(f"A charge that is {charge.status} does not expire.")
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
        raise NotPossible(f"A charge that is {charge.status} does not become {status}.")
    credited = charge.credited
    charge.status = status
    charge.amount_paid = paid
    charge.fee = provider.wire.fees.of_charge(paid)
    charge.reason = reason
    provider.adjust(charge.credited - credited)
    notice = provider.wire.charge_notice(charge)
    if notice is not None:
        provider.outbox.put(notice)


def return_address(provider: Provider, charge: Charge, *, canceled: bool = False) -> str | None:
    """The URL the customer returns to, with the query parameters that this provider adds."""
    if charge.redirect_url is None:
        return None
    added = urlencode(provider.wire.return_query(charge, canceled))
    parts = urlsplit(charge.redirect_url)
    query = f"{parts.query}&{added}" if parts.query else added
    return urlunsplit(parts._replace(query=query))
