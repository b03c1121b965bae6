"""The commands `manilla payment`, `manilla refund`, `manilla refunds` and `manilla split`."""

from typing import Annotated, Any

import typer

from manilla.cli.instance import Tools, command
from manilla.cli.options import InEnvironment, MerchantId, OfMerchant, TrxId
from manilla.cli.output import as_row, as_rows
from manilla.cli.providers.rails import configured_rails
from manilla.kit.fields import Fields
from manilla.kit.listing import first, in_pages
from manilla.kit.money import MoneyError
from manilla.ledger import timeline
from manilla.ledger.scope import Everyone
from manilla.payments import listing, store
from manilla.payments.listing import ListedStatus, PaymentFilter
from manilla.payments.payment import Charge, Payment
from manilla.refunds import decisions, initiate, returns
from manilla.refunds import listing as refunds
from manilla.refunds.listing import RefundFilter
from manilla.refunds.refund import Refund, RefundStatus
from manilla.splits import listing as shares
from manilla.splits import service
from manilla.splits import store as split_store
from manilla.splits.listing import ShareFilter
from manilla.splits.share import Share, ShareStatus
from manilla.splits.store import Partner

app = typer.Typer(no_args_is_help=True)
refunds_app = typer.Typer(no_args_is_help=True)
splits_app = typer.Typer(no_args_is_help=True)

Reason = Annotated[str, typer.Option("--reason", help="The reason, stored with the transaction.")]
LIST_MAX = 1000
ROW = listing.FIELDS.select(
    "trx_id merchant_id environment ref_trx status currency amount created_at"
)
COLUMNS = listing.FIELDS.select(
    "trx_id merchant_id environment ref_trx status error_code currency amount commission"
    " commission_bearer commission_trx_id customer_pays refunded created_at updated_at expires_at"
    " remarks"
)
CHARGES = Fields(Charge, method="method_code").select(
    "reference method status amount reason created_at"
)
SHARE = shares.FIELDS.select(
    "trx_id merchant_id owner_id payment_trx_id environment status currency amount withheld"
    " returned short hold_until created_at"
)
PARTNER = Fields(Partner).select("owner_id owner merchant_id receiver status")
Receiver = Annotated[int, typer.Argument(metavar="RECEIVER", min=1, help="The receiver's ID.")]
EVENTS = timeline.FIELDS.select("at event status detail")


@command(app, "list")
async def list_payments(
    tools: Tools,
    status: Annotated[ListedStatus | None, typer.Option("--status")] = None,
    merchant: OfMerchant = None,
    environment: InEnvironment = None,
    search: Annotated[
        str | None, typer.Option("--search", help="A reference, or part of a customer's name.")
    ] = None,
) -> None:
    """List payments, newest first."""
    scope, wanted = Everyone(merchant, environment), PaymentFilter(status=status, search=search)
    pages = in_pages(listing.payments, tools.db, scope, wanted)
    found: list[Payment] = [*await first(pages, LIST_MAX)]
    tools.print_rows(as_rows(ROW, found), empty="There are no payments.")


@command(app)
async def show(tools: Tools, trx_id: TrxId) -> None:
    """Show a payment, its charges and its timeline."""
    payment = await store.payment_about(tools.db, trx_id)
    if payment is None:
        raise initiate.PaymentNotFound(f"There is no payment {trx_id}.")
    key = payment.merchant_id, payment.trx_id
    fields = {
        **as_row(COLUMNS, payment),
        "charges": as_rows(CHARGES, await store.charges(tools.db, *key)),
        "timeline": as_rows(EVENTS, await timeline.steps(tools.db, *key)),
    }
    tools.print_record(fields, charges="There are no charges.", timeline="The timeline is empty.")


@command()
async def refund(
    tools: Tools,
    trx_id: TrxId,
    reason: Reason,
    amount: Annotated[
        str | None,
        typer.Option(
            "--amount", help="The amount in major units. Defaults to the amount not yet refunded."
        ),
    ] = None,
    with_commission: Annotated[
        bool,
        typer.Option(
            "--with-commission",
            help="Also refund the commission, at the platform's expense. Only possible with the "
            "full remaining amount.",
        ),
    ] = False,
) -> None:
    """Refund a payment in full or in part, from the merchant's wallet.

    The wallet is debited immediately. The merchant may be disabled.
    """
    try:
        started = await initiate.start(
            tools.db, trx_id, amount, reason, on_behalf=True, with_commission=with_commission
        )
    except MoneyError as error:
        raise typer.BadParameter(str(error), param_hint="--amount") from None
    tools.print_fields(await _refund(tools, await decisions.find(tools.db, started.trx_id)))


@command(refunds_app, "return")
async def return_credit(tools: Tools, trx_id: TrxId) -> None:
    """Return a payment's surplus or partial amount to the customer.

    The merchant may be disabled.
    """
    started = await returns.start_on_behalf(tools.db, trx_id)
    tools.print_rows([await _refund(tools, each) for each in started])


@command(refunds_app, "list")
async def list_refunds(
    tools: Tools,
    pending: Annotated[bool, typer.Option("--pending", help="Only pending refunds.")] = False,
) -> None:
    """List refunds, newest first."""
    wanted = RefundFilter(status=RefundStatus.PENDING if pending else None)
    found = await first(in_pages(refunds.refunds, tools.db, Everyone(), wanted), LIST_MAX)
    tools.print_rows([await _refund(tools, each) for each in found], empty="There are no refunds.")


@command(refunds_app)
async def confirm(
    tools: Tools,
    trx_id: TrxId,
    note: Annotated[str, typer.Option("--note", help="How the refund was paid.")] = "paid by hand",
    already_paid: Annotated[
        bool,
        typer.Option(
            "--already-paid", help="The customer has the money, whatever the provider reports."
        ),
    ] = False,
) -> None:
    """Record that you have paid a refund manually. Exits with 1 if the provider may pay it."""
    async with configured_rails(tools) as rails:
        decided = await decisions.confirm(tools.db, rails, trx_id, note, already_paid=already_paid)
    tools.print_fields(await _refund(tools, decided))


@command(refunds_app)
async def reject(
    tools: Tools,
    trx_id: TrxId,
    reason: Reason,
    checked: Annotated[
        bool,
        typer.Option(
            "--checked",
            help="You have verified that the provider, whose API cannot find it, will not pay.",
        ),
    ] = False,
) -> None:
    """Reject a refund that is waiting for an operator, and return the amount to the wallet."""
    async with configured_rails(tools) as rails:
        decided = await decisions.reject(tools.db, rails, trx_id, reason, is_checked=checked)
    tools.print_fields(await _refund(tools, decided))


async def _refund(tools: Tools, refund: Refund) -> dict[str, Any]:
    return as_row(REFUND, refund) | {"on_hold": await decisions.hold_of(tools.db, refund)}


def _waits_for(refund: Refund) -> str | None:
    if refund.status != "pending":
        return None
    return "operator" if refund.by_operator else "provider"


REFUND = Fields(Refund, waits_for=_waits_for, on_hold=lambda _: None).select(
    "trx_id payment_trx_id merchant_id environment currency amount commission status waits_for"
    " on_hold reason detail"
)


@command(splits_app, "list")
async def list_shares(
    tools: Tools,
    status: Annotated[ShareStatus | None, typer.Option("--status")] = None,
    merchant: OfMerchant = None,
    environment: InEnvironment = None,
) -> None:
    """List shares, newest first. With --merchant, those that this merchant receives."""
    scope, wanted = Everyone(merchant, environment), ShareFilter(status=status)
    pages = in_pages(shares.shares, tools.db, scope, wanted)
    found: list[Share] = [*await first(pages, LIST_MAX)]
    tools.print_rows(as_rows(SHARE, found), empty="There are no shares.")


@command(splits_app)
async def partners(tools: Tools, merchant_id: MerchantId) -> None:
    """List a merchant's receivers, and the merchants that share with it."""
    found = await split_store.partners(tools.db, merchant_id)
    tools.print_rows(as_rows(PARTNER, found), empty="The merchant has no partners.")


@command(splits_app)
async def link(tools: Tools, owner_id: MerchantId, receiver_id: Receiver) -> None:
    """Let a receiver get shares of the owner's payments, without an invitation.

    The receiver must have agreed.
    """
    await service.invite(tools.db, owner_id, receiver_id, is_accepted=True)
    tools.print_rows(as_rows(PARTNER, await split_store.partners(tools.db, owner_id)))


@command(splits_app)
async def unlink(tools: Tools, owner_id: MerchantId, receiver_id: Receiver) -> None:
    """End a receiver's consent. Shares of started payments stay."""
    await service.answer(tools.db, receiver_id, owner_id, accepts=False)
    tools.print_rows(as_rows(PARTNER, await split_store.partners(tools.db, owner_id)))
