"""`manilla dispute`: lists and shows disputes, records them manually, and releases answers."""

from datetime import datetime
from typing import Annotated, Any

import typer

from manilla.approvals.dispute_record import DisputeRecord
from manilla.cli import changes
from manilla.cli.instance import Tools, command
from manilla.cli.options import InEnvironment, OfMerchant, read_money
from manilla.cli.output import as_row, as_rows
from manilla.cli.providers.rails import configured_rails
from manilla.disputes import disputed, listing, manual, store
from manilla.disputes.dispute import Dispute, DisputeFile, DisputeStatus
from manilla.disputes.listing import DisputeFilter
from manilla.kit.clock import LAGOS
from manilla.kit.fields import Fields
from manilla.kit.listing import first, in_pages
from manilla.kit.listing.sorting import SortOrder
from manilla.ledger import timeline
from manilla.ledger.scope import Everyone
from manilla.lookup import story
from manilla.platform import settings
from manilla.providers.port import DisputeState, ReportedDisputeStatus

app = typer.Typer(no_args_is_help=True)

LIST_MAX = 1000
ROW = listing.FIELDS.select(
    "trx_id merchant_id environment ref_trx provider status answer currency amount respond_by"
)
COLUMNS = listing.FIELDS.select(
    "trx_id payment_trx_id merchant_id environment ref_trx charge_reference provider"
    " provider_reference status answer answer_detail stage category reason currency amount withheld"
    " taken short fee accepted opened_at respond_by missed_at answered_at outcome_at"
)
FILES = Fields(DisputeFile).select("number name media_type size_bytes")
EVENTS = timeline.FIELDS.select("at event detail")

DisputeId = Annotated[str, typer.Argument(metavar="DISPUTE", help="A dispute's id: DSP…")]
Note = Annotated[str, typer.Option("--note", help="What was checked or done, for the audit log.")]


@command(app, "list")
async def list_disputes(
    tools: Tools,
    status: Annotated[DisputeStatus | None, typer.Option("--status")] = None,
    merchant: OfMerchant = None,
    environment: InEnvironment = None,
) -> None:
    """List disputes, newest first. With --status needs_response, those that end first are first."""
    is_due = status is DisputeStatus.NEEDS_RESPONSE
    sort = SortOrder.DEADLINE if is_due else SortOrder.NEWEST
    wanted = DisputeFilter(status=status, sort=sort)
    pages = in_pages(listing.disputes, tools.db, Everyone(merchant, environment), wanted)
    found: list[Dispute] = [*await first(pages, LIST_MAX)]
    tools.print_rows(as_rows(ROW, found), empty="There are no disputes.")


@command(app)
async def show(tools: Tools, dispute: DisputeId) -> None:
    """Show a dispute, its evidence and its history."""
    found = await manual.find(tools.db, dispute)
    steps, _ = await story.of_dispute(tools.db, found)
    files = await store.files_of(tools.db, found.merchant_id, found.trx_id)
    fields = {
        **as_row(COLUMNS, found),
        "evidence": found.evidence_text or None,
        "files": as_rows(FILES, files),
        "history": as_rows(EVENTS, steps),
    }
    tools.print_record(fields, files="There are no files.", history="No history.")


@command(app)
async def record(
    tools: Tools,
    charge: Annotated[
        str, typer.Argument(metavar="CHARGE", help="The charge's reference, or the payment's id.")
    ],
    reference: Annotated[
        str, typer.Option("--reference", help="The provider's id of the dispute.")
    ],
    amount: Annotated[str, typer.Option("--amount", help="The disputed amount: 1000.00")],
    note: Note,
    status: Annotated[
        DisputeStatus, typer.Option("--status", help="The status at the provider.")
    ] = DisputeStatus.NEEDS_RESPONSE,
    reason: Annotated[str, typer.Option("--reason", help="The merchant sees it.")] = "",
    respond_by: Annotated[
        datetime | None,
        typer.Option("--respond-by", help="The deadline in Africa/Lagos: 2026-12-31T15:00"),
    ] = None,
) -> None:
    """Open or change a dispute as the provider's dashboard shows it.

    In production mode, a second administrator must approve a record that moves much money.
    """
    found = await disputed.charge_of(tools.db, charge)
    if found is None:
        raise typer.BadParameter(f"There is no charge {charge}.", param_hint="CHARGE")
    state = DisputeState(
        provider_reference=reference,
        status=ReportedDisputeStatus(status),
        charge_reference=found.reference,
        amount=read_money(amount, found.amount.currency),
        reason=reason,
        respond_by=None if respond_by is None else respond_by.replace(tzinfo=LAGOS),
    )
    current = await settings.load(tools.db)
    seen = await manual.preview(tools.db, current, found.provider, state, note)
    change = DisputeRecord(found.provider, state, note, seen)
    tools.print_fields(_described(await changes.apply(tools, change, note)))


@command(app)
async def release(tools: Tools, dispute: DisputeId, note: Note) -> None:
    """Approve an answer, or record that you have sent it at the provider."""
    found, current = await manual.find(tools.db, dispute), await settings.load(tools.db)
    async with configured_rails(tools) as rails:
        changed = await manual.release(tools.db, rails, current, found, note)
    tools.print_fields(_described(changed))


def _described(dispute: Dispute) -> dict[str, Any]:
    return as_row(COLUMNS, dispute)
