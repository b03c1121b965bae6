"""`manilla ledger`: proves that the books are in order."""

import msgspec
import typer

from manilla.cli.instance import Data, Tools, run
from manilla.cli.output import Json, print_json, print_rows
from manilla.ledger.invariants import Finding
from manilla.proofs import proofs

app = typer.Typer(help="The books.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Makes `check` a subcommand although it is the only one."""


@app.command()
def check(as_json: Json = False, data: Data = None) -> None:
    """Check every invariant; exit 1 if one is broken."""

    async def command(tools: Tools) -> list[Finding]:
        return await proofs.check(tools.db)

    findings = run(data, command)
    is_sound = all(finding.count == 0 for finding in findings)
    if as_json:
        print_json({"ok": is_sound, "invariants": [msgspec.to_builtins(f) for f in findings]})
    else:
        rows = [
            {"": "ok" if f.count == 0 else "BROKEN", "count": f.count, "invariant": f.promise}
            for f in findings
        ]
        print_rows(rows, as_json=False, empty="")
    if not is_sound:
        raise typer.Exit(1)
