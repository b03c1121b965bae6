"""`manilla case`: what the program would not decide by itself."""

from typing import Annotated, Any

import typer

from manilla.cases import cases
from manilla.cases.cases import Case
from manilla.cli.instance import Data, Tools, run
from manilla.cli.output import Json, print_rows
from manilla.kit.clock import iso

app = typer.Typer(help="Cases for an operator.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Makes `list` a subcommand although it is the only one."""


@app.command("list")
def list_cases(
    resolved: Annotated[bool, typer.Option("--all", help="Resolved ones too.")] = False,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """List cases, longest waiting first."""

    async def command(tools: Tools) -> list[Case]:
        return await cases.cases(tools.db, include_resolved=resolved)

    rows = [_row(case) for case in run(data, command)]
    print_rows(rows, as_json=as_json, empty="There is no case.")


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
