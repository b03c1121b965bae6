"""`manilla split`: lists shares of payments, and links receivers to owners."""

from typing import Annotated

import typer

from manilla.cli.instance import Tools, command
from manilla.cli.options import InEnvironment, MerchantId, OfMerchant
from manilla.cli.output import as_rows
from manilla.kit.fields import Fields
from manilla.kit.listing import first, in_pages
from manilla.ledger.scope import Everyone
from manilla.splits import listing, service, store
from manilla.splits.listing import ShareFilter
from manilla.splits.share import Share, ShareStatus
from manilla.splits.store import Partner

app = typer.Typer(no_args_is_help=True)

LIST_MAX = 1000
ROW = listing.FIELDS.select(
    "trx_id merchant_id owner_id payment_trx_id environment status currency amount withheld"
    " returned short hold_until created_at"
)
PARTNER = Fields(Partner).select("owner_id owner merchant_id receiver status")
Receiver = Annotated[int, typer.Argument(metavar="RECEIVER", min=1, help="The receiver's ID.")]


@command(app, "list")
async def list_shares(
    tools: Tools,
    status: Annotated[ShareStatus | None, typer.Option("--status")] = None,
    merchant: OfMerchant = None,
    environment: InEnvironment = None,
) -> None:
    """List shares, newest first. With --merchant, those that this merchant receives."""
    scope, wanted = Everyone(merchant, environment), ShareFilter(status=status)
    pages = in_pages(listing.shares, tools.db, scope, wanted)
    found: list[Share] = [*await first(pages, LIST_MAX)]
    tools.print_rows(as_rows(ROW, found), empty="There are no shares.")


@command(app)
async def partners(tools: Tools, merchant_id: MerchantId) -> None:
    """List a merchant's receivers, and the merchants that share with it."""
    found = await store.partners(tools.db, merchant_id)
    tools.print_rows(as_rows(PARTNER, found), empty="The merchant has no partners.")


@command(app)
async def link(tools: Tools, owner_id: MerchantId, receiver_id: Receiver) -> None:
    """Let a receiver get shares of the owner's payments, without an invitation.

    The receiver must have agreed.
    """
    await service.invite(tools.db, owner_id, receiver_id, is_accepted=True)
    tools.print_rows(as_rows(PARTNER, await store.partners(tools.db, owner_id)))


@command(app)
async def unlink(tools: Tools, owner_id: MerchantId, receiver_id: Receiver) -> None:
    """End a receiver's consent. Shares of started payments stay."""
    await service.answer(tools.db, receiver_id, owner_id, accepts=False)
    tools.print_rows(as_rows(PARTNER, await store.partners(tools.db, owner_id)))
