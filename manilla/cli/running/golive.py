"""`manilla golive`: shows the five steps of going live, with the evidence for each step."""

from typing import Any

import typer

from manilla.cli.instance import Tools, command
from manilla.cli.output import console, print_json, printable
from manilla.proofs import going_live
from manilla.proofs.going_live import GoLiveInstance, GoLiveResult

DEVELOPMENT = (
    "This instance runs in development mode, where providers and email may be simulated. "
    "Repeat all steps in production mode."
)


@command()
async def golive(tools: Tools) -> None:
    """Show the five steps of going live, and the next command or page for each open step.

    Exits with 1 if a step is open.
    """
    from manilla.wiring import mail_transport

    transport = mail_transport(tools.settings)
    instance = GoLiveInstance(
        *(tools.db, tools.keyring, tools.base_url),
        mail_server=transport.name if transport is not None else None,
        is_production_mode=tools.is_production_mode,
    )
    results = await going_live.check(instance)
    is_done = all(each.is_done for each in results)
    if tools.as_json:
        steps = [_as_row(each) for each in results]
        print_json({"mode": tools.settings.mode, "done": is_done, "steps": steps})
    else:
        _print(results, is_production_mode=tools.is_production_mode)
    if not is_done:
        raise typer.Exit(1)


def _as_row(each: GoLiveResult) -> dict[str, Any]:
    return {
        "step": each.step,
        "done": each.is_done,
        "evidence": each.evidence,
        "next": each.next or None,
    }


def _print(results: list[GoLiveResult], *, is_production_mode: bool) -> None:
    screen = console()
    for number, each in enumerate(results, start=1):
        screen.print(f"{'done' if each.is_done else 'open'}  {number}  [bold]{each.step}[/]")
        screen.print(f"         {printable(each.evidence)}", markup=False)
        if each.next:
            screen.print(f"         Next: {printable(each.next)}", markup=False)
    if not is_production_mode:
        screen.print(f"\n{DEVELOPMENT}", markup=False)
