"""`manilla api-key`: creates, lists and revokes merchants' further API keys."""

from datetime import date, timedelta
from typing import Annotated, Any

import msgspec
import typer

from manilla.cli.instance import Data, Tools, run
from manilla.cli.options import MerchantId, read_day
from manilla.cli.output import Json, print_fields, print_rows
from manilla.kit import clock
from manilla.kit.environment import Environment
from manilla.merchants import api_keys, merchants
from manilla.merchants.api_keys import ApiKeyRow, ApiKeyTerms
from manilla.merchants.credentials import NewCredentials
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
        typer.Option(metavar="R", help="payments, payouts, refunds or read; can be repeated."),
    ],
    address: Annotated[
        list[str] | None,
        typer.Option(metavar="A", help="An allowed IP address or network; can be repeated."),
    ] = None,
    last_day: Annotated[
        date | None, typer.Option(parser=read_day, metavar="DAY", help="In Lagos time.")
    ] = None,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Create a key and its secret, shown only once; the owners are notified by email."""
    terms = ApiKeyTerms(
        name=name,
        rights=[_read_right(text) for text in right],
        networks=address or (),
        expires_at=clock.start_of_day(last_day + timedelta(days=1)) if last_day else None,
    )

    async def command(tools: Tools) -> NewCredentials:
        return await api_keys.create(tools.db, tools.keyring, merchant_id, environment, terms)

    new = msgspec.to_builtins(run(data, command))
    print_fields({"id": merchant_id, "environment": environment, **new}, as_json=as_json)


@app.command("list")
def list_(
    merchant_id: MerchantId, environment: ForEnvironment, as_json: Json = False, data: Data = None
) -> None:
    """List active keys, and those that ended in the last 30 days."""

    async def command(tools: Tools) -> list[ApiKeyRow]:
        await merchants.get(tools.db, merchant_id)
        return await api_keys.listed(tools.db, merchant_id, environment)

    rows: list[dict[str, Any]] = [
        {**msgspec.structs.asdict(row), "status": row.status} for row in run(data, command)
    ]
    if not as_json:
        rows = [{name: row[name] for name in SHOWN} for row in rows]
    print_rows(rows, as_json=as_json, empty="There are no further API keys.")


@app.command()
def revoke(
    merchant_id: MerchantId,
    number: Annotated[int, typer.Argument(min=1, help="From `manilla api-key list`.")],
    environment: ForEnvironment,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Revoke a key within a second; the owners are notified by email."""

    async def command(tools: Tools) -> str:
        return await api_keys.revoke(tools.db, merchant_id, environment, number)

    revoked = {"id": merchant_id, "environment": environment, "number": number}
    print_fields({**revoked, "revoked": run(data, command)}, as_json=as_json)


def _read_right(text: str) -> Right:
    try:
        return Right(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a right.", param_hint="--right") from None
