"""Finds transactions by the merchant's own reference."""

from manilla.kit import listing
from manilla.payments import listing as payments
from manilla.payouts import listing as payouts
from manilla.web.page_request import PageRequest


async def transactions_named(request: PageRequest) -> tuple[str, ...]:
    """Returns the ids of transactions whose merchant reference equals the search text.

    A payment and a payout can have the same reference.
    """
    text = listing.search_text(request.query.text("q"))
    if text is None:
        return ()
    db, tenant = request.db, request.tenant
    return (
        *await payments.ids_of_reference(db, tenant, text),
        *await payouts.ids_of_reference(db, tenant, text),
    )
