"""`manilla approval`: changes waiting for a second administrator."""

from typing import Annotated

import typer

from manilla.approvals import approvals
from manilla.approvals.approvals import Approved
from manilla.approvals.queries import Approval
from manilla.audit.actor import Actor
from manilla.cli.changes import approvals_in
from manilla.cli.instance import Data, Tools, run
from manilla.cli.output import Json, as_row, as_rows, print_fields, print_rows
from manilla.kit.fields import Fields

app = typer.Typer(no_args_is_help=True)

ApprovalId = Annotated[int, typer.Argument(metavar="ID", min=1, max=approvals.ID_MAX)]


def name_of(actor: Actor | None) -> str | None:
    return f"{actor.kind} {actor.name}" if actor else None


FIELDS = Fields(
    Approval,
    wanted="detail",
    reason=lambda approval: approval.reason or None,
    asked_by=lambda approval: name_of(approval.asked_by),
    decided_by=lambda approval: name_of(approval.decided_by),
)
COLUMNS = FIELDS.select(
    "id kind subject merchant_id wanted reason status asked_by asked_at expires_at decided_by"
    " decided_at decision"
)
SHORT_COLUMNS = FIELDS.select("id kind subject status asked_by asked_at")


@app.command("list")
def list_approvals(
    decided: Annotated[bool, typer.Option("--all", help="Include decided ones.")] = False,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """List pending approvals, newest first."""

    async def command(tools: Tools) -> list[Approval]:
        if decided:
            return await approvals.listed(tools.db, limit=approvals.LIST_MAX)
        return await approvals.waiting(tools.db)

    rows = as_rows(COLUMNS if as_json else SHORT_COLUMNS, run(data, command))
    print_rows(rows, as_json=as_json, empty="Nothing is waiting for a second administrator.")


@app.command()
def show(approval_id: ApprovalId, as_json: Json = False, data: Data = None) -> None:
    """Show a change: what was requested, by whom, and the decision."""

    async def command(tools: Tools) -> Approval:
        return await approvals.find(tools.db, approval_id)

    print_fields(as_row(COLUMNS, run(data, command)), as_json=as_json)


@app.command()
def approve(approval_id: ApprovalId, as_json: Json = False, data: Data = None) -> None:
    """Approve a change, which then takes effect immediately; you cannot approve your own."""

    async def command(tools: Tools) -> Approved:
        return await approvals.approve(approvals_in(tools), approval_id)

    print_fields(as_row(COLUMNS, run(data, command).approval), as_json=as_json)


@app.command()
def refuse(
    approval_id: ApprovalId,
    reason: Annotated[str, typer.Option("--reason", help="The reason, stored with the decision.")],
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Reject a change, or withdraw your own."""

    async def command(tools: Tools) -> Approval:
        return await approvals.refuse(approvals_in(tools), approval_id, reason)

    print_fields(as_row(COLUMNS, run(data, command)), as_json=as_json)
