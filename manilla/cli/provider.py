"""`manilla provider`: credentials, health and a connection test."""

from typing import Annotated, Any

import msgspec
import typer

from manilla.approvals.changes import ApprovalRequested, apply_or_ask
from manilla.approvals.kinds import ProviderChange, ProviderClearing
from manilla.cli import secret_input
from manilla.cli.approval import approvals_in, print_done
from manilla.cli.instance import Data, Tools, run
from manilla.cli.output import Json, print_fields, print_rows
from manilla.platform.changes import ChangeWatch
from manilla.providers import accounts, connection_test, credentials
from manilla.providers.connection_test import ConnectionTest
from manilla.providers.kind import Credentials
from manilla.providers.port import Done
from manilla.providers.rails import Rails, open_session

app = typer.Typer(no_args_is_help=True)

Named = Annotated[
    str, typer.Argument(metavar="PROVIDER", help="The account's name, such as providera.")
]


@app.command("set")
def set_(
    provider: Named,
    values: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY=VALUE...",
            help="KEY prompts for the value without echo; KEY=- reads a line of standard input.",
        ),
    ],
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Set credentials and switches; an empty value clears one. Takes effect within a second.

    Any user of the machine can see a command's arguments, so give secrets as KEY or KEY=-.
    """
    wanted = dict(_pair(value) for value in values)

    async def command(tools: Tools) -> dict[str, Any] | ApprovalRequested:
        done = await apply_or_ask(approvals_in(tools), ProviderChange(provider, wanted))
        if isinstance(done, ApprovalRequested):
            return done
        assert isinstance(done, Credentials)
        return _shown(done)

    print_done(run(data, command), as_json=as_json)


@app.command()
def show(
    provider: Annotated[str | None, typer.Argument(metavar="[PROVIDER]")] = None,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Show the settings, missing settings and rail health."""

    async def command(tools: Tools) -> list[dict[str, Any]]:
        current = await credentials.load(tools.db, tools.keyring)
        if provider is not None:
            await accounts.kind_of(tools.db, provider)
        async with open_session() as session:
            rails = configured_rails(tools, session)
            health = await rails.health.overview()
        return [
            {**_shown(current[each]), "rails": _rails_shown(each, health)}
            for each in ([provider] if provider else current)
        ]

    shown = run(data, command)
    if as_json:
        print_rows(shown, as_json=True, empty="") if provider is None else print_fields(
            shown[0], as_json=True
        )
        return
    for each in shown:
        print_fields(each, as_json=False)
        print()


@app.command()
def clear(provider: Named, as_json: Json = False, data: Data = None) -> None:
    """Delete a provider's credentials; the provider is then no longer offered."""

    async def command(tools: Tools) -> dict[str, Any] | ApprovalRequested:
        done = await apply_or_ask(approvals_in(tools), ProviderClearing(provider))
        kind = await accounts.kind_of(tools.db, provider)
        return done if isinstance(done, ApprovalRequested) else _shown(Credentials(provider, kind))

    print_done(run(data, command), as_json=as_json)


@app.command("test")
def try_out(provider: Named, as_json: Json = False, data: Data = None) -> None:
    """Query our balance and the bank list; exit 1 unless both succeed."""

    async def command(tools: Tools) -> ConnectionTest:
        async with open_session() as session:
            rails = configured_rails(tools, session)
            tried = await connection_test.run_test(rails, provider)
            await rails.health.flush()
            return tried

    tried = run(data, command)
    balance, banks = tried.balance, tried.banks
    report = {
        "provider": provider,
        "ok": tried.is_ok,
        "balance": balance.value.amount
        if isinstance(balance, Done)
        else connection_test.problem(balance),
        "banks": len(banks.value) if isinstance(banks, Done) else connection_test.problem(banks),
    }
    print_fields(report, as_json=as_json)
    if not tried.is_ok:
        raise typer.Exit(1)


def configured_rails(tools: Tools, session: Any) -> Rails:
    return Rails(tools.db, tools.keyring, ChangeWatch(tools.db), session, is_production_mode=False)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    return name, secret_input.revealed(name, value) if equals else secret_input.ask(name)


def _shown(current: Credentials) -> dict[str, Any]:
    return {
        "provider": current.provider,
        "valid": current.is_valid,
        "missing": current.missing,
        "settings": current.shown(),
    }


def _rails_shown(provider: str, health: list[Any]) -> dict[str, Any]:
    return {
        rail.direction: {
            key: value
            for key, value in msgspec.to_builtins(rail).items()
            if key not in ("provider", "direction")
        }
        for rail in health
        if rail.provider == provider
    }
