"""Applies changes that may need a second administrator, for several commands."""

from collections.abc import Callable, Mapping
from typing import Any

from manilla.approvals.approvals import Approvals
from manilla.approvals.changes import ApprovalRequested, apply_or_ask
from manilla.approvals.kinds import Change
from manilla.cli.instance import Tools
from manilla.cli.output import print_fields, print_json

Result = Mapping[str, Any] | ApprovalRequested


def approvals_in(tools: Tools) -> Approvals:
    return Approvals(tools.db, tools.keyring, tools.is_production_mode)


async def apply(
    tools: Tools, change: Change, describe: Callable[[Any], Mapping[str, Any]], reason: str = ""
) -> Result:
    """Applies the change and describes its result, or requests the required approval."""
    done = await apply_or_ask(approvals_in(tools), change, reason)
    return done if isinstance(done, ApprovalRequested) else describe(done)


def print_result(result: Result, *, as_json: bool) -> None:
    """Prints the result of a change, or the number of the approval that it waits for."""
    if not isinstance(result, ApprovalRequested):
        print_fields(result, as_json=as_json)
    elif as_json:
        print_json({"approval": result.approval_id})
    else:
        print(f"waiting for a second administrator: approval {result.approval_id}")
