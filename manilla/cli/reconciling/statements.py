"""`manilla reconcile import`, `statement` and `sign-off`: providers' statements."""

from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from manilla.cli.instance import InstanceRefusal, Tools, command
from manilla.cli.options import Limit, OptionalProvider, ProviderName, read_day
from manilla.cli.output import as_row, as_rows, print_json, print_table
from manilla.cli.providers.rails import check_provider, configured_rails
from manilla.kit.clock import LAGOS
from manilla.providers.connection_test import NotConfigured
from manilla.providers.rails import Rails
from manilla.reconciliation import files, importing, reports, signing, unmatched
from manilla.reconciliation.lines import ImportResult


@command()
async def import_statement(
    tools: Tools,
    provider: ProviderName,
    file: Annotated[
        Path | None, typer.Argument(help="A CSV file. Without a file, the provider's API is used.")
    ] = None,
    first: Annotated[
        date | None, typer.Option("--from", metavar="DAY", parser=read_day, help="Default: --to.")
    ] = None,
    last: Annotated[
        date | None,
        typer.Option("--to", metavar="DAY", parser=read_day, help="Default: yesterday."),
    ] = None,
) -> None:
    """Import a provider's statement, from a file or from the provider, and compare it."""
    until = last or datetime.now(LAGOS).date() - timedelta(days=1)
    since = first or until
    await check_provider(tools, provider)
    async with configured_rails(tools) as rails:
        if file is not None:
            raw, adapter = _content(file), rails.adapter(provider)
            result = await importing.import_file(tools.db, provider, raw, adapter)
        else:
            result = await _import_from_provider(tools, rails, provider, since, until)
    tools.print_fields(msgspec.structs.asdict(result))


async def _import_from_provider(
    tools: Tools, rails: Rails, provider: str, first: date, last: date
) -> ImportResult:
    adapter = rails.adapter(provider)
    if adapter is None:
        raise NotConfigured(f"{provider} is not configured.")
    kinds = rails.credentials(provider).kind.capabilities.statements
    return await importing.import_from_provider(tools.db, adapter, kinds, first, last)


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InstanceRefusal(f"{file}: {error.strerror}.") from None


@command()
async def show_statement(
    tools: Tools,
    provider: OptionalProvider = None,
    day: Annotated[
        date | None, typer.Option("--day", metavar="DAY", parser=read_day, help="Only this day.")
    ] = None,
    limit: Limit = 31,
) -> None:
    """Show the days whose statements were imported. Exits with 1 if something does not match.

    With --day, also lists the unmatched transactions and statement lines.
    """
    await check_provider(tools, provider)
    found = await reports.reports(tools.db, provider, day, limit)
    totals = as_rows(reports.COLUMNS, found)
    rows = [
        row
        for report in ([] if day is None else found)
        for row in as_rows(reports.UNMATCHED_COLUMNS, await unmatched.of_day(tools.db, report.day))
    ]
    if tools.as_json:
        print_json({"days": totals, "unmatched": rows})
    else:
        print_table(totals, empty="No statement was imported.")
        if rows:
            print()
            print_table(rows)
    if any(report.day.unmatched for report in found):
        raise typer.Exit(1)


@command()
async def sign_off(
    tools: Tools,
    provider: ProviderName,
    day: Annotated[date, typer.Argument(metavar="DAY", parser=read_day, help="2026-01-31")],
    note: Annotated[
        str, typer.Option("--note", help="A note. Required if something does not match.")
    ] = "",
    currency: Annotated[str, typer.Option("--currency", metavar="CODE")] = files.DEFAULT_CURRENCY,
) -> None:
    """Sign off a day's reconciliation, and store the day's current figures."""
    await check_provider(tools, provider)
    await signing.sign(tools.db, provider, currency, day, note=note)
    report = await reports.find(tools.db, provider, currency, day)
    assert report is not None
    tools.print_fields(as_row(reports.COLUMNS, report))
