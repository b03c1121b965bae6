"""`manilla api-key`: creates, lists and revokes merchants' additional API keys."""

from datetime import date, timedelta
from typing import Annotated

import msgspec
import typer

from manilla.cli.instance import Data, Tools, command, run
from manilla.cli.options import MerchantId, read_day
from manilla.cli.output import Json
from manilla.kit import clock
from manilla.kit.environment import Environment
from manilla.merchants import api_keys, merchants
from manilla.merchants.api_keys import ApiKeyTerms
from manilla.merchants.rights import Right

app = typer.Typer(no_args_is_help=True)

ForEnvironment = Annotated[Environment, typer.Option("--environment")]
SHOWN = ("number", "name", "status", "rights", "networks", "expires_at", "last_used_at")


@app.command()
def create(
    merchant_id: MerchantId,
    name: str,
    environment: ForEnvironment,
    right: Annotated[
        list[str],
        typer.Option(metavar="R", help="payments, payouts, refunds or read. Can be repeated."),
    ],
    address: Annotated[
        list[str] | None,
        typer.Option(metavar="A", help="An allowed IP address or network. Can be repeated."),
    ] = None,
    last_day: Annotated[
        date | None, typer.Option(parser=read_day, metavar="DAY", help="In Lagos time.")
    ] = None,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Create an API key. The key and its secret are shown only once. The owners get an email."""
    terms = ApiKeyTerms(
        name=name,
        rights=[_read_right(text) for text in right],
        networks=address or (),
        expires_at=clock.start_of_day(last_day + timedelta(days=1)) if last_day else None,
    )
    run(data, lambda tools: _create(tools, merchant_id, environment, terms), as_json=as_json)


async def _create(
    tools: Tools, merchant_id: int, environment: Environment, terms: ApiKeyTerms
) -> None:
    new = await api_keys.create(tools.db, tools.keyring, merchant_id, environment, terms)
    shown = {"id": merchant_id, "environment": environment, **msgspec.to_builtins(new)}
    tools.print_fields(shown)


@command(app, "list")
async def list_(tools: Tools, merchant_id: MerchantId, environment: ForEnvironment) -> None:
    """List active API keys, and keys that expired or were revoked in the last 30 days."""
    await merchants.get(tools.db, merchant_id)
    found = await api_keys.list_keys(tools.db, merchant_id, environment)
    rows = [{**msgspec.structs.asdict(row), "status": row.status} for row in found]
    tools.print_rows(rows, empty="No additional API keys.", shown=SHOWN)


@command(app)
async def revoke(
    tools: Tools,
    merchant_id: MerchantId,
    number: Annotated[
        int, typer.Argument(min=1, help="The key's number, as shown by `manilla api-key list`.")
    ],
    environment: ForEnvironment,
) -> None:
    """Revoke an API key. Takes effect within a second. The owners get an email."""
    name = await api_keys.revoke(tools.db, merchant_id, environment, number)
    revoked = {"id": merchant_id, "environment": environment, "number": number, "revoked": name}
    tools.print_fields(revoked)


def _read_right(text: str) -> Right:
    try:
        return Right(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a right.", param_hint="--right") from None
