"""A merchant's payment links, and the customers who pay with them."""

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from manilla.kit.money import Money
from manilla.ledger.scope import Tenant
from manilla.payments.payment import PaymentStatus
from manilla.payments.payment_links import store
from manilla.payments.payment_links.link import LinkTerms, PaymentLink
from manilla.payments.payment_links.paying import CustomerInput
from tests.payments.shop import Shop, Started
from tests.support.client import Site

AMOUNT_MINOR = 100_000


def tenant_of(shop: Shop) -> Tenant:
    return Tenant(shop.merchant.new.id, shop.merchant.environment)


async def new_link(shop: Shop, **changed: Any) -> PaymentLink:
    terms = {"title": "Adire cloth", "currency": "NGN", "amount_minor": AMOUNT_MINOR, **changed}
    return await store.create(shop.services.db, tenant_of(shop), LinkTerms(**terms))


async def start(shop: Shop, link: PaymentLink, amount: str | None = None, **given: Any) -> Started:
    """Starts a payment as a customer with a new IP address."""
    wish = CustomerInput(amount=Money.of(amount, "NGN") if amount else None, **given)
    url = await shop.services.link_payments.start(link.id, wish, Site(0).address)
    return Started(urlsplit(url).path.rsplit("/", 1)[1], url, {})


async def current(shop: Shop, link: PaymentLink) -> PaymentLink:
    return await store.find(shop.services.db, link.id)


async def statuses(shop: Shop, *started: Started) -> list[PaymentStatus]:
    return sorted([(await shop.payment(each)).status for each in started])


def in_an_hour() -> datetime:
    return datetime.now(UTC) + timedelta(hours=1)
