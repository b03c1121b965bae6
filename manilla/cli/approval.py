"""`manilla approval`: changes waiting for a second administrator."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from manilla.approvals import approvals
from manilla.approvals.approvals import Approvals, Approved
from manilla.approvals.changes import ApprovalRequested
from manilla.approvals.queries import Approval
from manilla.audit.actor import Actor
from manilla.cli.instance import Data, Tools, run
from manilla.cli.output import Json, print_fields, print_json, print_rows
from manilla.kit.clock import iso

app = typer.Typer(no_args_is_help=True)

ApprovalId = Annotated[int, typer.Argument(metavar="ID", min=1, max=approvals.ID_MAX)]


def approvals_in(tools: Tools) -> Approvals:
    return Approvals(tools.db, tools.keyring, tools.is_production_mode)


def print_done(done: Mapping[str, Any] | ApprovalRequested, *, as_json: bool) -> None:
    """Prints the result of a change, or the number of the approval it waits for."""
    if not isinstance(done, ApprovalRequested):
        print_fields(done, as_json=as_json)
    elif as_json:
        print_json({"approval": done.approval_id})
    else:
        print(f"waiting for a second administrator: approval {done.approval_id}")


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

    rows = [_shown(each) for each in run(data, command)]
    if not as_json:
        rows = [{key: row[key] for key in _COLUMNS} for row in rows]
    print_rows(rows, as_json=as_json, empty="Nothing is waiting for a second administrator.")


@app.command()
def show(approval_id: ApprovalId, as_json: Json = False, data: Data = None) -> None:
    """Show a change: what was requested, by whom, and the decision."""

    async def command(tools: Tools) -> Approval:
        return await approvals.find(tools.db, approval_id)

    print_fields(_shown(run(data, command)), as_json=as_json)


@app.command()
def approve(approval_id: ApprovalId, as_json: Json = False, data: Data = None) -> None:
    """Approve a change, which then takes effect immediately; you cannot approve your own."""

    async def command(tools: Tools) -> Approved:
        return await approvals.approve(approvals_in(tools), approval_id)

    print_fields(_shown(run(data, command).approval), as_json=as_json)


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

    print_fields(_shown(run(data, command)), as_json=as_json)


_COLUMNS = ("id", "kind", "subject", "status", "asked_by", "asked_at")


def _shown(each: Approval) -> dict[str, Any]:
    return {
        "id": each.id,
        "kind": each.kind,
        "subject": each.subject,
        "merchant_id": each.merchant_id,
        "wanted": each.detail,
        "reason": each.reason or None,
        "status": each.status,
        "asked_by": who(each.asked_by),
        "asked_at": iso(each.asked_at),
        "expires_at": iso(each.expires_at),
        "decided_by": who(each.decided_by) if each.decided_by else None,
        "decided_at": iso(each.decided_at) if each.decided_at else None,
        "decision": each.decision,
    }


def who(actor: Actor) -> str:
    return f"{actor.kind} {actor.name}"
