"""Finds our transaction ids by the merchant's own references."""

from manilla.kit import listing
from manilla.payments import listing as payments
from manilla.payouts import listing as payouts
from manilla.web.page_request import PageRequest


async def transactions_named(request: PageRequest) -> tuple[str, ...]:
    """Returns the ids of the transactions whose merchant reference is the search text.

    A payment and a payout may have the same reference.
    """
    text = listing.searched(request.query.text("q"))
    if text is None:
        return ()
    db, tenant = request.db, request.tenant
    return (*await payments.named(db, tenant, text), *await payouts.named(db, tenant, text))
