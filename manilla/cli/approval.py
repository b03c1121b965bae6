"""`manilla approval`: lists, approves and rejects requested changes."""

from typing import Annotated

import typer

from manilla.approvals import approvals
from manilla.approvals.queries import Approval
from manilla.audit.actor import Actor
from manilla.cli.changes import approvals_in
from manilla.cli.instance import Tools, command
from manilla.cli.output import as_row, as_rows
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
SHOWN = ("id", "kind", "subject", "status", "asked_by", "asked_at")


@command(app, "list")
async def list_approvals(
    tools: Tools,
    decided: Annotated[bool, typer.Option("--all", help="Include decided approvals.")] = False,
) -> None:
    """List pending approvals, newest first."""
    if decided:
        found = await approvals.list_approvals(tools.db, limit=approvals.LIST_MAX)
    else:
        found = await approvals.waiting(tools.db)
    empty = "No change is waiting for a second administrator."
    tools.print_rows(as_rows(COLUMNS, found), empty, SHOWN)


@command(app)
async def show(tools: Tools, approval_id: ApprovalId) -> None:
    """Show a requested change, its requester and the decision."""
    tools.print_fields(as_row(COLUMNS, await approvals.find(tools.db, approval_id)))


@command(app)
async def approve(tools: Tools, approval_id: ApprovalId) -> None:
    """Approve a change that another administrator requested. It takes effect immediately."""
    done = await approvals.approve(approvals_in(tools), approval_id)
    tools.print_fields(as_row(COLUMNS, done.approval))


@command(app)
async def refuse(
    tools: Tools,
    approval_id: ApprovalId,
    reason: Annotated[str, typer.Option("--reason", help="The reason, stored with the decision.")],
) -> None:
    """Reject a change, or withdraw your own change."""
    refused = await approvals.refuse(approvals_in(tools), approval_id, reason)
    tools.print_fields(as_row(COLUMNS, refused))
