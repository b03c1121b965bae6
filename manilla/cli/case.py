"""`manilla case`: lists, shows and resolves cases."""

from typing import Annotated

import typer

from manilla.approvals.kinds import CaseResolution
from manilla.cases import cases, listing
from manilla.cases.cases import CaseAction, CaseEvent, CaseRefused
from manilla.cli import changes
from manilla.cli.instance import Tools, command
from manilla.cli.output import as_row, as_rows
from manilla.cli.providers.rails import configured_rails
from manilla.console import evidence
from manilla.kit.fields import Fields
from manilla.ledger import trx_ids
from manilla.providers import status_query
from manilla.providers.status_query import StatusAnswer
from manilla.resolutions import resolutions

app = typer.Typer(no_args_is_help=True)

_ROW = (
    "id merchant_id environment kind reference trx_id provider currency amount status opened_at"
    " detail"
)
ROW = listing.FIELDS.select(_ROW)
COLUMNS = listing.FIELDS.select(f"{_ROW} vanished_at resolution resolved_at")
EVENTS = Fields(CaseEvent).select("at event detail")
ANSWER = Fields(StatusAnswer, asked_at="at", detail=lambda answer: answer.detail or None).select(
    "asked_at status amount detail"
)

CaseId = Annotated[
    int, typer.Argument(metavar="CASE", min=1, max=2**63 - 1, help="The case number.")
]

OfMerchant = Annotated[
    int | None,
    typer.Option(
        "--merchant",
        metavar="ID",
        min=0,
        max=trx_ids.MERCHANT_ID_MAX,
        help="The case's merchant, if several merchants have a case with this number.",
    ),
]


@command(app, "list")
async def list_cases(
    tools: Tools,
    resolved: Annotated[bool, typer.Option("--all", help="Include resolved cases.")] = False,
) -> None:
    """List cases, oldest first."""
    found = await cases.cases(tools.db, include_resolved=resolved)
    tools.print_rows(as_rows(ROW, found), empty="There are no cases.")


@command(app)
async def show(tools: Tools, case_id: CaseId, merchant: OfMerchant = None) -> None:
    """Show a case, its history and its possible resolutions."""
    case = await cases.find(tools.db, case_id, merchant_id=merchant)
    fields = {
        **as_row(COLUMNS, case),
        "history": as_rows(EVENTS, await cases.history(tools.db, case)),
        "ways": [
            {"action": way.name, "explanation": way.explanation}
            for way in await resolutions.options(tools.db, case)
        ],
    }
    tools.print_record(fields, history="No history.", ways="")


@command(app)
async def resolve(
    tools: Tools,
    case_id: CaseId,
    note: Annotated[str, typer.Option("--note", help="What was found and done.")],
    action: Annotated[
        CaseAction,
        typer.Option("--action", help="What to do with the money. `case show` lists the options."),
    ] = CaseAction.NOTHING,
    merchant: OfMerchant = None,
) -> None:
    """Resolve a case. Exits with 1 if the case is already resolved."""
    case = await cases.find(tools.db, case_id, merchant_id=merchant)
    amount = await resolutions.amount(tools.db, case)
    change = CaseResolution(case.id, action, note, case.merchant_id or None, amount)
    await changes.apply(tools, change, note)
    resolved = await cases.find(tools.db, case_id, merchant_id=case.merchant_id)
    tools.print_fields(as_row(COLUMNS, resolved))


@command(app)
async def close(tools: Tools, case_id: CaseId, merchant: OfMerchant = None) -> None:
    """Close a case whose difference no longer exists. Exits with 1 if it still exists."""
    closed = await resolutions.close_vanished(tools.db, case_id, merchant_id=merchant)
    tools.print_fields(as_row(COLUMNS, closed))


@command(app)
async def ask(tools: Tools, case_id: CaseId, merchant: OfMerchant = None) -> None:
    """Query the transaction's status at the provider, without changing anything.

    Exits with 1 if the case is not about a transaction at a provider.
    """
    case = await cases.find(tools.db, case_id, merchant_id=merchant)
    known = await evidence.gather(tools.db, case)
    if known.question is None:
        raise CaseRefused(f"Case {case_id} is not about a transaction at a provider.")
    async with configured_rails(tools) as rails:
        tools.print_fields(as_row(ANSWER, await status_query.ask(rails, known.question)))
