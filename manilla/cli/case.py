"""`manilla case`: cases that an administrator must resolve."""

from typing import Annotated, Any

import typer

from manilla.approvals.changes import ApprovalRequested, apply_or_ask
from manilla.approvals.kinds import CaseResolution
from manilla.cases import cases, listing
from manilla.cases.cases import Case, CaseAction, CaseEvent, CaseRefused
from manilla.cli.changes import approvals_in, print_result
from manilla.cli.instance import Data, Tools, run
from manilla.cli.output import Json, as_row, as_rows, print_fields, print_record, print_rows
from manilla.cli.providers.rails import configured_rails
from manilla.console import evidence
from manilla.kit.fields import Fields
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


@app.command("list")
def list_cases(
    resolved: Annotated[bool, typer.Option("--all", help="Include resolved cases.")] = False,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """List cases, longest waiting first."""

    async def command(tools: Tools) -> list[Case]:
        return await cases.cases(tools.db, include_resolved=resolved)

    rows = as_rows(ROW, run(data, command))
    print_rows(rows, as_json=as_json, empty="There are no cases.")


@app.command()
def show(case_id: CaseId, as_json: Json = False, data: Data = None) -> None:
    """Show a case, its history and its possible resolutions."""

    async def command(tools: Tools) -> dict[str, Any]:
        return await _in_full(tools, await cases.find(tools.db, case_id))

    print_record(run(data, command), as_json=as_json, history="No history.", ways="")


@app.command()
def resolve(
    case_id: CaseId,
    note: Annotated[str, typer.Option("--note", help="What was found and done.")],
    action: Annotated[
        CaseAction, typer.Option("--action", help="What to do with the money; see `case show`.")
    ] = CaseAction.NOTHING,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Resolve a case; exit 1 if it is already resolved."""

    async def command(tools: Tools) -> dict[str, Any] | ApprovalRequested:
        case = await cases.find(tools.db, case_id)
        change = CaseResolution(case.id, action, note, case.merchant_id or None, case.amount)
        done = await apply_or_ask(approvals_in(tools), change, note)
        if isinstance(done, ApprovalRequested):
            return done
        return as_row(COLUMNS, await cases.find(tools.db, case_id))

    print_result(run(data, command), as_json=as_json)


@app.command()
def close(case_id: CaseId, as_json: Json = False, data: Data = None) -> None:
    """Close a case whose difference no longer exists; exit 1 if it still does."""

    async def command(tools: Tools) -> Case:
        return await resolutions.close_vanished(tools.db, case_id)

    print_fields(as_row(COLUMNS, run(data, command)), as_json=as_json)


@app.command()
def ask(case_id: CaseId, as_json: Json = False, data: Data = None) -> None:
    """Query the provider's status, changing nothing; exit 1 if no provider can be queried."""

    async def command(tools: Tools) -> StatusAnswer:
        known = await evidence.gather(tools.db, await cases.find(tools.db, case_id))
        if known.question is None:
            raise CaseRefused(f"Case {case_id} is not about a transaction at a provider.")
        async with configured_rails(tools) as rails:
            return await status_query.ask(rails, known.question)

    print_fields(as_row(ANSWER, run(data, command)), as_json=as_json)


async def _in_full(tools: Tools, case: Case) -> dict[str, Any]:
    return {
        **as_row(COLUMNS, case),
        "history": as_rows(EVENTS, await cases.history(tools.db, case)),
        "ways": [
            {"action": way.name, "explanation": way.explanation}
            for way in await resolutions.options(tools.db, case)
        ],
    }
