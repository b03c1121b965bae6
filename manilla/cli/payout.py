"""`manilla payout`: lists payouts, decides on manual ones, and holds or releases all sending."""

from typing import Annotated, Any

import typer

from manilla.cli.instance import Data, Tools, run
from manilla.cli.output import Json, print_fields, print_rows
from manilla.cli.provider import configured_rails
from manilla.kit.clock import iso
from manilla.kit.environment import Environment
from manilla.kit.listing import first
from manilla.ledger import timeline, trx_ids
from manilla.ledger.scope import Everyone
from manilla.merchants.outgoing import OutgoingHold
from manilla.payouts import decisions, listing, queue
from manilla.payouts.listing import PayoutFilter
from manilla.payouts.payout import Payout, PayoutStatus
from manilla.providers.rails import open_session
from manilla.transfers import holding

app = typer.Typer(no_args_is_help=True)

TrxId = Annotated[str, typer.Argument(metavar="TRX", help="A transaction id: TXN…")]
LIST_MAX = 1000


@app.command("list")
def list_payouts(
    status: Annotated[PayoutStatus | None, typer.Option("--status")] = None,
    merchant: Annotated[
        int | None, typer.Option("--merchant", metavar="ID", min=1, max=trx_ids.MERCHANT_ID_MAX)
    ] = None,
    environment: Annotated[Environment | None, typer.Option("--environment")] = None,
    manual_only: Annotated[bool, typer.Option("--manual", help="Only manual payouts.")] = False,
    on_hold: Annotated[
        bool,
        typer.Option("--on-hold", help="Only unsent automatic payouts on hold."),
    ] = False,
    search: Annotated[
        str | None, typer.Option("--search", help="A reference, or part of a holder's name.")
    ] = None,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """List payouts, newest first."""
    scope = Everyone(merchant, environment)
    wanted = PayoutFilter(status=status, manual=manual_only or None, search=search)

    async def command(tools: Tools) -> list[dict[str, Any]]:
        if on_hold:
            waiting = await first(queue.all_on_hold(tools.db, scope, search), LIST_MAX)
            return [_row(each.payout, each.hold) for each in waiting]
        found = await first(listing.all_payouts(tools.db, scope, wanted), LIST_MAX)
        holds = await decisions.holds_of(tools.db, found)
        return [_row(payout, holds.get(payout.trx_id)) for payout in found]

    print_rows(run(data, command), as_json=as_json, empty="There are no payouts.")


@app.command()
def show(trx_id: TrxId, as_json: Json = False, data: Data = None) -> None:
    """Show a payout, its beneficiary and its timeline."""

    async def command(tools: Tools) -> dict[str, Any]:
        return await _described(tools, await decisions.find(tools.db, trx_id))

    described = run(data, command)
    if as_json:
        print_fields(described, as_json=True)
        return
    steps = described.pop("timeline")
    print_fields(described, as_json=False)
    print_rows(steps, as_json=False, empty="The timeline is empty.")


@app.command()
def complete(
    trx_id: TrxId,
    bank_reference: Annotated[str | None, typer.Option("--bank-reference", metavar="R")] = None,
    already_paid: Annotated[
        bool,
        typer.Option("--already-paid", help="It is on hold but has already been paid."),
    ] = False,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Record that a manual payout was paid; exit 1 if it is already final or on hold."""

    async def command(tools: Tools) -> dict[str, Any]:
        done = await decisions.complete(tools.db, trx_id, bank_reference, already_paid=already_paid)
        return await _described(tools, done)

    _print(run(data, command), as_json)


@app.command()
def reject(
    trx_id: TrxId,
    reason: Annotated[
        str, typer.Option("--reason", metavar="R", help="The reason, shown to the merchant.")
    ],
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Reject and refund a manual or held payout, or a stuck one that its provider does not know."""

    async def command(tools: Tools) -> dict[str, Any]:
        async with open_session() as session:
            rails = configured_rails(tools, session)
            await rails.load()
            return await _described(tools, await decisions.reject(tools.db, rails, trx_id, reason))

    _print(run(data, command), as_json)


@app.command()
def requeue(trx_id: TrxId, as_json: Json = False, data: Data = None) -> None:
    """Process an open automatic payout now; it keeps its reference, so it is never sent twice."""

    async def command(tools: Tools) -> dict[str, Any]:
        return await _described(tools, await decisions.requeue(tools.db, trx_id))

    _print(run(data, command), as_json)


@app.command()
def hold(as_json: Json = False, data: Data = None) -> None:
    """Put all payouts and refunds on hold; those already sent are still queried at providers."""

    async def command(tools: Tools) -> dict[str, Any]:
        await holding.hold(tools.db)
        return await _hold_shown(tools)

    print_fields(run(data, command), as_json=as_json)


@app.command()
def release(as_json: Json = False, data: Data = None) -> None:
    """Release the hold, after querying providers about transfers that are recorded as unsent."""

    async def command(tools: Tools) -> dict[str, Any]:
        async with open_session() as session:
            rails = configured_rails(tools, session)
            await rails.load()
            await holding.release(tools.db, rails)
        return await _hold_shown(tools)

    print_fields(run(data, command), as_json=as_json)


async def _hold_shown(tools: Tools) -> dict[str, Any]:
    since = await holding.hold_start(tools.db)
    return {
        "held": since is not None,
        "since": iso(since) if since else None,
        "waiting": await holding.waiting(tools.db),
    }


def _print(described: dict[str, Any], as_json: bool) -> None:
    if not as_json:
        described.pop("timeline")
    print_fields(described, as_json=as_json)


def _row(payout: Payout, hold: OutgoingHold | None) -> dict[str, Any]:
    return {
        "trx_id": payout.trx_id,
        "merchant_id": payout.merchant_id,
        "environment": payout.environment,
        "ref_trx": payout.ref_trx,
        "status": payout.status,
        "error_code": payout.error_code,
        "on_hold": hold,
        "currency": payout.currency,
        "payout_amount": payout.amount.amount,
        "fee": payout.fee.amount,
        "method": payout.method_code,
        "created_at": iso(payout.created_at),
    }


async def _described(tools: Tools, payout: Payout) -> dict[str, Any]:
    steps = await timeline.steps(tools.db, payout.merchant_id, payout.trx_id)
    hold = await decisions.hold_of(tools.db, payout)
    return {
        **_row(payout, hold),
        "on_hold_reason": hold.text if hold else None,
        "payable_amount": payout.payable.amount,
        "beneficiary": payout.beneficiary,
        "account_name": payout.account_name,
        **payout.details,
        "guidance": payout.guidance,
        "reversed": payout.is_reversed,
        "provider_reference": payout.provider_reference,
        "bank_reference": payout.bank_reference,
        "remarks": payout.remarks,
        "sent_at": iso(payout.began_at) if payout.began_at else None,
        "accepted_at": iso(payout.accepted_at) if payout.accepted_at else None,
        "updated_at": iso(payout.updated_at),
        "timeline": [
            {
                "at": iso(step.at),
                "event": step.event,
                "status": step.to_status,
                "detail": step.detail,
            }
            for step in steps
        ],
    }
