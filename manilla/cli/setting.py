"""`manilla setting`: platform settings."""

from typing import Any

import msgspec
import typer

from manilla.approvals.changes import ApprovalRequested, apply_or_ask
from manilla.approvals.kinds import SettingChange
from manilla.cli.changes import approvals_in, print_result
from manilla.cli.instance import Data, Tools, run
from manilla.cli.output import Json, print_json, print_rows
from manilla.platform import settings
from manilla.platform.settings import Setting, UnknownSetting

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_(as_json: Json = False, data: Data = None) -> None:
    """List every setting with its value, default and explanation."""
    rows = [msgspec.to_builtins(setting) for setting in run(data, _all)]
    if not as_json:
        rows = [{key: row[key] for key in ("key", "value", "explanation")} for row in rows]
    print_rows(rows, as_json=as_json, empty="")


@app.command("get")
def get(key: str, as_json: Json = False, data: Data = None) -> None:
    """Print one setting's value."""
    found = _find(run(data, _all), key)
    if as_json:
        print_json(found)
    else:
        print(found.value)


@app.command("set")
def set_(key: str, value: str, as_json: Json = False, data: Data = None) -> None:
    """Change a setting, in all processes."""

    async def command(tools: Tools) -> dict[str, Any] | ApprovalRequested:
        done = await apply_or_ask(approvals_in(tools), SettingChange(key, value))
        if isinstance(done, ApprovalRequested):
            return done
        return msgspec.structs.asdict(_find(await _all(tools), key))

    print_result(run(data, command), as_json=as_json)


async def _all(tools: Tools) -> list[Setting]:
    stored = await settings.load(tools.db)
    return settings.describe(stored, is_development=not tools.is_production_mode)


def _find(described: list[Setting], key: str) -> Setting:
    for setting in described:
        if setting.key == key:
            return setting
    raise UnknownSetting(f"There is no setting {key!r}.")
