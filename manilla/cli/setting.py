"""`manilla setting`: shows and changes platform settings."""

import msgspec
import typer

from manilla.approvals.kinds import SettingChange
from manilla.cli import changes
from manilla.cli.instance import Tools, command
from manilla.platform import settings
from manilla.platform.settings import Setting, UnknownSetting

app = typer.Typer(no_args_is_help=True)


@command(app, "list")
async def list_(tools: Tools) -> None:
    """List every setting with its value, default and explanation."""
    rows = [msgspec.to_builtins(setting) for setting in await _all(tools)]
    tools.print_rows(rows, shown=("key", "value", "explanation"))


@command(app)
async def get(tools: Tools, key: str) -> None:
    """Print one setting's value."""
    found = await _find(tools, key)
    tools.print_text(found.value, found)


@command(app, "set")
async def set_(tools: Tools, key: str, value: str) -> None:
    """Change a setting in all processes. Takes effect within a second."""
    await changes.apply(tools, SettingChange(key, value))
    tools.print_fields(msgspec.structs.asdict(await _find(tools, key)))


async def _all(tools: Tools) -> list[Setting]:
    stored = await settings.load(tools.db)
    return settings.describe(stored, is_development=not tools.is_production_mode)


async def _find(tools: Tools, key: str) -> Setting:
    for setting in await _all(tools):
        if setting.key == key:
            return setting
    raise UnknownSetting(f"There is no setting {key!r}.")
