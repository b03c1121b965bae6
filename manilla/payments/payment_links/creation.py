"""Creates and edits payment links, for the API and the dashboard."""

from datetime import UTC, datetime, timedelta

from manilla.kit.database.connections import Database
from manilla.ledger.idempotency import Remember, without_key
from manilla.ledger.scope import Tenant
from manilla.ledger.transactions import CurrencyNotEnabled
from manilla.merchants.directory import Caller
from manilla.payments.initiate import PaymentInitiation, PaymentLimitExceeded
from manilla.payments.payment_links import store
from manilla.payments.payment_links.link import LinkTerms, PaymentLink

TITLE_LENGTH_MAX, DESCRIPTION_LENGTH_MAX = 100, 2000
# A transfer to an account number is a payment of its own, so it could not close the link.
SINGLE_USE = "A single-payment link cannot show account numbers."
LONGEST = timedelta(days=3653)


async def create(
    db: Database,
    initiation: PaymentInitiation,
    caller: Caller,
    terms: LinkTerms,
    remember: Remember = without_key,
) -> PaymentLink:
    """Creates a link, if the merchant could accept its payments now."""
    _check(initiation, caller, terms)
    return await store.create(db, Tenant(caller.merchant_id, caller.environment), terms, remember)


async def edit(
    db: Database, initiation: PaymentInitiation, caller: Caller, link: PaymentLink, terms: LinkTerms
) -> PaymentLink:
    """Edits a link. The currency and the single-payment setting cannot be changed."""
    _check(initiation, caller, terms)
    return await store.edit(db, Tenant(caller.merchant_id, caller.environment), link.id, terms)


def _check(initiation: PaymentInitiation, caller: Caller, terms: LinkTerms) -> None:
    if terms.currency not in caller.currencies:
        raise CurrencyNotEnabled
    if terms.amount is not None:
        try:
            initiation.check_limit(caller, terms.amount)
        except PaymentLimitExceeded as refusal:
            raise PaymentLimitExceeded.at("amount", refusal.text) from None


def expiry_problem(expires_at: datetime | None) -> str | None:
    """Returns why a link cannot expire at this time, or None if it can."""
    if expires_at is None:
        return None
    now = datetime.now(UTC)
    if expires_at <= now:
        return "Expected a time in the future."
    return "Expected a time within the next 10 years." if expires_at > now + LONGEST else None
