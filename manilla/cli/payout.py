"""`manilla payout`: lists payouts, completes or rejects them, and holds all payouts."""

from typing import Annotated, Any

import typer

from manilla.beneficiaries.banks import Banks
from manilla.cli.instance import Tools, command
from manilla.cli.options import InEnvironment, OfMerchant, TrxId
from manilla.cli.output import as_row, as_rows
from manilla.cli.providers.rails import configured_rails, known_banks
from manilla.kit.fields import Columns, insert_after
from manilla.kit.listing import first, in_pages
from manilla.ledger import timeline
from manilla.ledger.scope import Everyone
from manilla.merchants import outgoing
from manilla.payouts import decisions, listing, queue
from manilla.payouts.explanation import ExplainedAttempt, explain_attempts
from manilla.payouts.listing import PayoutFilter
from manilla.payouts.payout import DETAILS, REPORTED_NAMES, Payout, PayoutStatus
from manilla.payouts.queue import QueueFilter, Waiting
from manilla.proofs import restored

app = typer.Typer(no_args_is_help=True)

LIST_MAX = 1000
_ROW = (
    "trx_id merchant_id environment ref_trx status error_code on_hold currency payout_amount fee"
    " method bank created_at"
)
ROW = queue.ON_HOLD_FIELDS.select(_ROW)
COLUMNS = queue.ON_HOLD_FIELDS.select(
    f"{_ROW} on_hold_reason payable_amount beneficiary account_name {' '.join(DETAILS)} guidance"
    f" reversed {' '.join(REPORTED_NAMES)} provider_reference bank_reference remarks sent_at"
    " accepted_at updated_at"
)
EVENTS = timeline.FIELDS.select("at event status detail")


@command(app, "list")
async def list_payouts(
    tools: Tools,
    status: Annotated[PayoutStatus | None, typer.Option("--status")] = None,
    merchant: OfMerchant = None,
    environment: InEnvironment = None,
    manual_only: Annotated[bool, typer.Option("--manual", help="Only manual payouts.")] = False,
    on_hold: Annotated[
        bool,
        typer.Option("--on-hold", help="List only unsent automatic payouts on hold."),
    ] = False,
    search: Annotated[
        str | None,
        typer.Option("--search", help="A reference, or part of an account holder's name."),
    ] = None,
) -> None:
    """List payouts, newest first."""
    scope = Everyone(merchant, environment)
    if on_hold:
        waiting = await first(
            in_pages(queue.on_hold, tools.db, scope, QueueFilter(search=search)), LIST_MAX
        )
    else:
        wanted = PayoutFilter(status=status, manual=manual_only or None, search=search)
        found = await first(in_pages(listing.payouts, tools.db, scope, wanted), LIST_MAX)
        holds = await decisions.holds_of(tools.db, found)
        waiting = [Waiting(each, holds.get(each.trx_id)) for each in found]
    async with known_banks(tools) as banks:
        rows = as_rows(_with_bank_names(ROW, banks), waiting)
    tools.print_rows(rows, empty="There are no payouts.")


@command(app)
async def show(tools: Tools, trx_id: TrxId) -> None:
    """Show a payout with its beneficiary, timeline and rails."""
    fields = await _described(tools, await decisions.find(tools.db, trx_id))
    tools.print_record(fields, attempts="", timeline="The timeline is empty.")


@command(app)
async def complete(
    tools: Tools,
    trx_id: TrxId,
    bank_reference: Annotated[str | None, typer.Option("--bank-reference", metavar="R")] = None,
    already_paid: Annotated[
        bool,
        typer.Option("--already-paid", help="The payout is on hold but was already paid."),
    ] = False,
) -> None:
    """Record that a manual payout was paid. Exits with 1 if it is already final or on hold."""
    done = await decisions.complete(tools.db, trx_id, bank_reference, already_paid=already_paid)
    await _print(tools, done)


@command(app)
async def reject(
    tools: Tools,
    trx_id: TrxId,
    reason: Annotated[
        str, typer.Option("--reason", metavar="R", help="The reason, shown to the merchant.")
    ],
) -> None:
    """Reject a payout and return its amount to the wallet.

    The payout must be manual, on hold, or stuck and unknown to its provider.
    """
    async with configured_rails(tools) as rails:
        await _print(tools, await decisions.reject(tools.db, rails, trx_id, reason))


@command(app)
async def requeue(tools: Tools, trx_id: TrxId) -> None:
    """Process an open automatic payout now. Its reference prevents a second transfer."""
    await _print(tools, await decisions.requeue(tools.db, trx_id))


@command(app)
async def hold(tools: Tools) -> None:
    """Put all payouts and refunds on hold. Status queries about sent transfers continue."""
    await outgoing.hold_all(tools.db)
    await _print_hold(tools)


@command(app)
async def release(tools: Tools) -> None:
    """End the hold, after querying providers about transfers that are recorded as unsent."""
    async with configured_rails(tools) as rails:
        await restored.release(tools.db, rails)
    await _print_hold(tools)


async def _print_hold(tools: Tools) -> None:
    since, waiting = await outgoing.hold_start(tools.db), await restored.waiting(tools.db)
    tools.print_fields({"held": since is not None, "since": since, "waiting": waiting})


async def _print(tools: Tools, payout: Payout) -> None:
    described = await _described(tools, payout)
    if not tools.as_json:
        described.pop("timeline")
        described.pop("attempts")
    tools.print_fields(described)


async def _described(tools: Tools, payout: Payout) -> dict[str, Any]:
    hold = await decisions.hold_of(tools.db, payout)
    steps = await timeline.steps(tools.db, payout.merchant_id, payout.trx_id)
    attempts = await explain_attempts(tools.db, payout.merchant_id, payout.trx_id)
    async with known_banks(tools) as banks:
        fields = as_row(_with_bank_names(COLUMNS, banks), Waiting(payout, hold))
    return {
        **fields,
        "attempts": [_attempt(each) for each in attempts],
        "timeline": as_rows(EVENTS, steps),
    }


def _with_bank_names(columns: Columns[Waiting], banks: Banks) -> Columns[Waiting]:
    return insert_after(columns, "bank", "bank_name", lambda row: banks.name_of(row.payout))


def _attempt(attempt: ExplainedAttempt) -> dict[str, Any]:
    skipped = attempt.skipped.items()
    return {
        "attempt": attempt.number,
        "rail": attempt.provider,
        "state": attempt.state,
        "at": attempt.created_at,
        "ended_at": attempt.dead_at,
        "ended_because": attempt.dead_because,
        "chosen_because": attempt.chosen_because,
        "not_chosen": "; ".join(f"{rail}: {reason}" for rail, reason in skipped),
    }
