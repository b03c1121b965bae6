"""`manilla payment`, `manilla refund` and `manilla refunds`: payments and refunds."""

from typing import Annotated, Any

import typer

from manilla.cli.instance import Data, InstanceRefusal, Tools, run
from manilla.cli.options import InEnvironment, OfMerchant, TrxId
from manilla.cli.output import Json, as_row, as_rows, print_fields, print_record, print_rows
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

app = typer.Typer(no_args_is_help=True)
refunds_app = typer.Typer(no_args_is_help=True)

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
EVENTS = timeline.FIELDS.select("at event status detail")


@app.command("list")
def list_payments(
    status: Annotated[ListedStatus | None, typer.Option("--status")] = None,
    merchant: OfMerchant = None,
    environment: InEnvironment = None,
    search: Annotated[
        str | None, typer.Option("--search", help="A reference, or part of a customer's name.")
    ] = None,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """List payments, newest first."""

    async def command(tools: Tools) -> list[Payment]:
        scope, wanted = Everyone(merchant, environment), PaymentFilter(status=status, search=search)
        return [*await first(in_pages(listing.payments, tools.db, scope, wanted), LIST_MAX)]

    rows = as_rows(ROW, run(data, command))
    print_rows(rows, as_json=as_json, empty="There are no payments.")


@app.command()
def show(trx_id: TrxId, as_json: Json = False, data: Data = None) -> None:
    """Show a payment, its charges and its timeline."""

    async def command(tools: Tools) -> dict[str, Any]:
        payment = await store.payment_about(tools.db, trx_id)
        if payment is None:
            raise initiate.PaymentNotFound(f"There is no payment {trx_id}.")
        return await _described(tools, payment)

    print_record(
        run(data, command),
        as_json=as_json,
        charges="There are no charges.",
        timeline="The timeline is empty.",
    )


async def _described(tools: Tools, payment: Payment) -> dict[str, Any]:
    key = payment.merchant_id, payment.trx_id
    return {
        **as_row(COLUMNS, payment),
        "charges": as_rows(CHARGES, await store.charges(tools.db, *key)),
        "timeline": as_rows(EVENTS, await timeline.steps(tools.db, *key)),
    }


def refund(
    trx_id: TrxId,
    reason: Reason,
    amount: Annotated[
        str | None, typer.Option("--amount", help="Major units; defaults to the rest.")
    ] = None,
    with_commission: Annotated[
        bool,
        typer.Option(
            "--with-commission",
            help="Also refund the commission, at the platform's expense.",
        ),
    ] = False,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Refund a payment in full or in part; the merchant's wallet is debited immediately.

    This also works for a disabled merchant.
    """

    async def command(tools: Tools) -> dict[str, Any]:
        try:
            started = await initiate.start(
                tools.db, trx_id, amount, reason, on_behalf=True, with_commission=with_commission
            )
        except MoneyError as error:
            raise InstanceRefusal(str(error)) from None
        return await _refund(tools, await decisions.find(tools.db, started.trx_id))

    print_fields(run(data, command), as_json=as_json)


@refunds_app.command("return")
def return_credit(trx_id: TrxId, as_json: Json = False, data: Data = None) -> None:
    """Return a payment's surplus, or a part of its amount, that waits to be returned.

    This also works for a disabled merchant.
    """

    async def command(tools: Tools) -> list[dict[str, Any]]:
        started = await returns.start_on_behalf(tools.db, trx_id)
        return [await _refund(tools, each) for each in started]

    print_rows(run(data, command), as_json=as_json, empty="")


@refunds_app.command("list")
def list_refunds(
    pending: Annotated[bool, typer.Option("--pending", help="Only pending refunds.")] = False,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """List refunds, newest first."""
    wanted = RefundFilter(status=RefundStatus.PENDING if pending else None)

    async def command(tools: Tools) -> list[dict[str, Any]]:
        found = await first(in_pages(refunds.refunds, tools.db, Everyone(), wanted), LIST_MAX)
        return [await _refund(tools, each) for each in found]

    print_rows(run(data, command), as_json=as_json, empty="There are no refunds.")


@refunds_app.command()
def confirm(
    trx_id: TrxId,
    note: Annotated[str, typer.Option("--note", help="How it was paid.")] = "paid by hand",
    already_paid: Annotated[
        bool,
        typer.Option(
            "--already-paid", help="The customer has the money, whatever the provider says."
        ),
    ] = False,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Record that a refund waiting for an operator was paid; exit 1 if the provider may pay it."""

    async def command(tools: Tools) -> dict[str, Any]:
        async with configured_rails(tools) as rails:
            decided = await decisions.confirm(
                tools.db, rails, trx_id, note, already_paid=already_paid
            )
        return await _refund(tools, decided)

    print_fields(run(data, command), as_json=as_json)


@refunds_app.command()
def reject(
    trx_id: TrxId,
    reason: Reason,
    checked: Annotated[
        bool,
        typer.Option(
            "--checked",
            help="You have checked at a provider without a status query that it does not pay.",
        ),
    ] = False,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Reject a refund waiting for an operator; its amount is credited back to the wallet."""

    async def command(tools: Tools) -> dict[str, Any]:
        async with configured_rails(tools) as rails:
            decided = await decisions.reject(tools.db, rails, trx_id, reason, is_checked=checked)
        return await _refund(tools, decided)

    print_fields(run(data, command), as_json=as_json)


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
