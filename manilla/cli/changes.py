"""Applies a command's change, or requests a second administrator's approval."""

from typing import Any

import typer

from manilla.approvals.approvals import Approvals
from manilla.approvals.changes import ApprovalRequested, apply_or_ask
from manilla.approvals.kinds import Change
from manilla.cli.instance import Tools


def approvals_in(tools: Tools) -> Approvals:
    return Approvals(tools.db, tools.keyring, tools.is_production_mode)


async def apply(tools: Tools, change: Change, reason: str = "") -> Any:
    """Applies the change and returns its result.

    If a second administrator must approve the change, prints the approval's number and ends the
    command.
    """
    done = await apply_or_ask(approvals_in(tools), change, reason)
    if not isinstance(done, ApprovalRequested):
        return done
    approval = done.approval_id
    text = f"waiting for a second administrator: approval {approval}"
    tools.print_text(text, {"approval": approval})
    raise typer.Exit
