"""Finds our transaction ids by the merchant's own references."""

from manilla.kit import listing
from manilla.kit.db import Database
from manilla.ledger.scope import Tenant
from manilla.payments import listing as payments
from manilla.payouts import listing as payouts


async def named(db: Database, tenant: Tenant, searched: str | None) -> list[str]:
    """Ids of the transactions that have this merchant reference.

    A payment and a payout may have the same reference.
    """
    text = listing.searched(searched)
    if text is None:
        return []
    return [*await payments.named(db, tenant, text), *await payouts.named(db, tenant, text)]
