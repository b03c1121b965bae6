"""`manilla rail`: stops new payouts through a provider account, and permits them again."""

import typer

from manilla.cli.instance import Data, Tools, run
from manilla.cli.options import ProviderName
from manilla.cli.output import Json, print_fields
from manilla.cli.providers.rails import check_provider
from manilla.providers import draining, queries

app = typer.Typer(no_args_is_help=True)


@app.command()
def drain(account: ProviderName, as_json: Json = False, data: Data = None) -> None:
    """Stop new payouts through an account; those already sent are followed to their end.

    Payouts of the automatic method use other rails, and unsent ones move there. Payouts of the
    account's own method are rejected. Takes effect within a second.
    """
    _set(account, as_json, data, is_drained=True)


@app.command()
def undrain(account: ProviderName, as_json: Json = False, data: Data = None) -> None:
    """Permit payouts through a drained account again. Takes effect within a second."""
    _set(account, as_json, data, is_drained=False)


def _set(account: str, as_json: bool, data: Data, *, is_drained: bool) -> None:
    async def command(tools: Tools) -> dict[str, object]:
        await check_provider(tools, account)
        change = draining.drain if is_drained else draining.undrain
        is_changed = await change(tools.db, account)
        since = (await queries.drained_rails(tools.db)).get(account)
        return {"account": account, "drained_since": since, "changed": is_changed}

    print_fields(run(data, command), as_json=as_json)
