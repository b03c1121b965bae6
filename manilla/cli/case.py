"""`manilla case`: cases that an administrator must resolve."""

from typing import Annotated, Any

import typer

from manilla.approvals.changes import ApprovalRequested, apply_or_ask
from manilla.approvals.kinds import CaseResolution
from manilla.cases import cases
from manilla.cases.cases import Case, CaseAction, CaseRefused
from manilla.cli.approval import approvals_in, print_done
from manilla.cli.instance import Data, Tools, run
from manilla.cli.output import Json, print_fields, print_rows
from manilla.cli.provider import configured_rails
from manilla.console import evidence
from manilla.kit.clock import iso
from manilla.providers import status_query
from manilla.providers.rails import open_session
from manilla.providers.status_query import StatusAnswer
from manilla.resolutions import resolutions

app = typer.Typer(no_args_is_help=True)

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

    rows = [_row(case) for case in run(data, command)]
    print_rows(rows, as_json=as_json, empty="There are no cases.")


@app.command()
def show(case_id: CaseId, as_json: Json = False, data: Data = None) -> None:
    """Show a case, its history and its possible resolutions."""

    async def command(tools: Tools) -> dict[str, Any]:
        return await _in_full(tools, await cases.find(tools.db, case_id))

    shown = run(data, command)
    if as_json:
        print_fields(shown, as_json=True)
        return
    ways, history = shown.pop("ways"), shown.pop("history")
    print_fields(shown, as_json=False)
    print_rows(history, as_json=False, empty="No history.")
    if ways:
        print_rows(ways, as_json=False, empty="")


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
        return _described(await cases.find(tools.db, case_id))

    print_done(run(data, command), as_json=as_json)


@app.command()
def close(case_id: CaseId, as_json: Json = False, data: Data = None) -> None:
    """Close a case whose difference no longer exists; exit 1 if it still does."""

    async def command(tools: Tools) -> Case:
        return await resolutions.close_vanished(tools.db, case_id)

    print_fields(_described(run(data, command)), as_json=as_json)


@app.command()
def ask(case_id: CaseId, as_json: Json = False, data: Data = None) -> None:
    """Query the provider's status, changing nothing; exit 1 if no provider can be queried."""

    async def command(tools: Tools) -> StatusAnswer:
        known = await evidence.gather(tools.db, await cases.find(tools.db, case_id))
        if known.question is None:
            raise CaseRefused(f"Case {case_id} is not about a transaction at a provider.")
        async with open_session() as session:
            rails = configured_rails(tools, session)
            await rails.load()
            return await status_query.ask(rails, known.question)

    said = run(data, command)
    amount = said.amount.amount if said.amount else None
    shown = {"asked_at": iso(said.at), "status": said.status, "amount": amount}
    print_fields({**shown, "detail": said.detail or None}, as_json=as_json)


async def _in_full(tools: Tools, case: Case) -> dict[str, Any]:
    return {
        **_described(case),
        "history": [
            {"at": iso(each.at), "event": each.event, "detail": each.detail}
            for each in await cases.history(tools.db, case)
        ],
        "ways": [
            {"action": way.name, "explanation": way.explanation}
            for way in await resolutions.options(tools.db, case)
        ],
    }


def _described(case: Case) -> dict[str, Any]:
    resolved_at = iso(case.resolved_at) if case.resolved_at else None
    vanished_at = iso(case.vanished_at) if case.vanished_at else None
    return {
        **_row(case),
        "vanished_at": vanished_at,
        "resolution": case.resolution,
        "resolved_at": resolved_at,
    }


def _row(case: Case) -> dict[str, Any]:
    return {
        "id": case.id,
        "merchant_id": case.merchant_id or None,
        "environment": case.environment,
        "kind": case.kind,
        "reference": case.reference,
        "trx_id": case.trx_id,
        "currency": case.currency,
        "amount": case.amount.amount if case.amount else None,
        "status": case.status,
        "opened_at": iso(case.opened_at),
        "detail": case.detail,
    }
