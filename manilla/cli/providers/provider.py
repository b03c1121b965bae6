"""`manilla provider`: manages, shows and tests provider accounts."""

from datetime import date, timedelta
from typing import Annotated, Any

import msgspec
import typer

from manilla.approvals.kinds import ProviderAddition, ProviderChange, ProviderClearing
from manilla.cli import changes, secret_input
from manilla.cli.instance import Data, Tools, command, run
from manilla.cli.options import OptionalProvider, ProviderName, read_day
from manilla.cli.output import Json, console, print_csv, print_json, print_lines, printable
from manilla.cli.providers.rails import check_provider, configured_rails
from manilla.kit.clock import start_of_day
from manilla.providers import accounts, connection_test, credentials, statements
from manilla.providers.checks.account import check_account
from manilla.providers.kind import Credentials
from manilla.providers.port import Done, StatementLine
from manilla.providers.rails import open_client

app = typer.Typer(no_args_is_help=True)


@app.command("set")
def set_(
    provider: ProviderName,
    values: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY=VALUE...",
            help="KEY prompts for the value without echo; KEY=- reads it from standard input.",
        ),
    ],
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Set credentials and switches of a provider account. Takes effect within a second.

    An empty value deletes a credential. Any user of this machine can see a command's arguments, so
    pass secrets as KEY or KEY=-.
    """
    wanted = dict(_pair(value) for value in values)
    run(data, lambda tools: _update(tools, provider, wanted), as_json=as_json)


async def _update(tools: Tools, provider: str, wanted: dict[str, str]) -> None:
    await check_provider(tools, provider)
    tools.print_fields(_described(await changes.apply(tools, ProviderChange(provider, wanted))))


@command(app)
async def add(
    tools: Tools,
    kind: Annotated[str, typer.Argument(metavar="KIND", help="The kind, such as paystack.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="2 to 31 characters of a-z, 0-9.")],
) -> None:
    """Add a provider account with its methods, which are inactive at first."""
    tools.print_fields(_described(await changes.apply(tools, ProviderAddition(kind, name))))


@command(app)
async def show(tools: Tools, provider: OptionalProvider = None) -> None:
    """Show a provider's settings, missing settings and rail health."""
    current = await credentials.load(tools.db, tools.keyring)
    await check_provider(tools, provider)
    async with configured_rails(tools) as rails:
        health = await rails.health.overview()
    shown = [
        {**_described(current[each]), "rails": _health_by_direction(each, health)}
        for each in ([provider] if provider else current)
    ]
    if tools.as_json:
        print_json(shown if provider is None else shown[0])
        return
    for each in shown:
        print_lines(each)
        print()


@command(app)
async def clear(tools: Tools, provider: ProviderName) -> None:
    """Delete a provider's credentials. The provider's methods are then no longer offered."""
    await check_provider(tools, provider)
    kind = await accounts.kind_of(tools.db, provider)
    await changes.apply(tools, ProviderClearing(provider))
    tools.print_fields(_described(Credentials(provider, kind)))


@command(app, "test")
async def try_out(tools: Tools, provider: ProviderName) -> None:
    """Query our balance and the provider's bank list, and save the bank codes.

    Exits with 1 if one of the two queries fails.
    """
    await check_provider(tools, provider)
    async with configured_rails(tools) as rails:
        tried = await connection_test.run_test(tools.db, rails, provider)
        await rails.health.flush()
    balance, banks = tried.balance, tried.banks
    report = {
        "provider": provider,
        "ok": tried.is_ok,
        "balance": balance.value if isinstance(balance, Done) else connection_test.problem(balance),
        "banks": len(banks.value) if isinstance(banks, Done) else connection_test.problem(banks),
    }
    tools.print_fields(report)
    if not tried.is_ok:
        raise typer.Exit(1)


@command(app)
async def statement(
    tools: Tools,
    provider: ProviderName,
    first: Annotated[
        date,
        typer.Option("--from", metavar="DAY", parser=read_day, help="The first day, in Lagos."),
    ],
    last: Annotated[
        date, typer.Option("--to", metavar="DAY", parser=read_day, help="The last day.")
    ],
    currency: Annotated[str, typer.Option("--currency")] = "NGN",
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
) -> None:
    """List the lines of the provider's account statement, oldest first."""
    since, until = start_of_day(first), start_of_day(last + timedelta(days=1))
    await check_provider(tools, provider)
    async with configured_rails(tools) as rails:
        adapter = rails.adapter(provider)
        if adapter is None:
            raise connection_test.NotConfigured(f"{provider} is not configured.")
        pages = statements.read(adapter, since, until, currency)
        lines = [line async for page in pages for line in page]
    lines.sort(key=lambda line: (line.booked_at, line.line_id))
    rows = [msgspec.structs.asdict(line) for line in lines]
    if as_csv:
        print_csv(rows, StatementLine.__struct_fields__)
    else:
        tools.print_rows(rows, empty="The statement has no lines.")


@command(app)
async def check(
    tools: Tools,
    provider: ProviderName,
    live: Annotated[
        bool, typer.Option("--live", help="Make only calls that create nothing and move no money.")
    ] = False,
) -> None:
    """Make every type of API call with a provider's test account.

    Prints a report without credentials and personal data. Exits with 1 if a response is unexpected.
    """
    await check_provider(tools, provider)
    async with open_client() as client:
        report = await check_account(
            *(tools.db, tools.keyring, client, provider, tools.base_url), is_live=live
        )
    if tools.as_json:
        print_json(report.document())
    else:
        for line in report.lines():
            console().print(printable(line), markup=False)
    if not report.is_ok:
        raise typer.Exit(1)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    return name, secret_input.read_secret(name, value) if equals else secret_input.ask(name)


def _described(current: Credentials) -> dict[str, Any]:
    return {
        "provider": current.provider,
        "valid": current.is_valid,
        "missing": current.missing,
        "settings": current.shown(),
    }


def _health_by_direction(provider: str, health: list[Any]) -> dict[str, Any]:
    return {
        rail.direction: {
            key: value
            for key, value in msgspec.to_builtins(rail).items()
            if key not in ("provider", "direction")
        }
        for rail in health
        if rail.provider == provider
    }
