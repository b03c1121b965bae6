"""`manilla reconcile import` and `manilla reconcile statement`: providers' statements."""

from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from manilla.cli.instance import Data, InstanceRefusal, Tools, run
from manilla.cli.options import Limit, ProviderName, read_day
from manilla.cli.output import Json, as_rows, print_fields, print_json, print_rows
from manilla.cli.providers.rails import check_provider, configured_rails
from manilla.kit.clock import LAGOS
from manilla.kit.fields import Fields
from manilla.providers.connection_test import NotConfigured
from manilla.reconciliation import days, importing, unmatched
from manilla.reconciliation.days import ReconciledDay
from manilla.reconciliation.lines import ImportResult
from manilla.reconciliation.unmatched import Unmatched

DAY_COLUMNS = Fields(ReconciledDay, day=lambda row: row.day.isoformat()).select(
    "provider currency day lines movements statement ledger difference ledger_balance"
    " provider_balance open_lines open_movements result"
)
UNMATCHED_COLUMNS = Fields(Unmatched).select(
    "provider currency booked_at kind reference finding ledger statement difference line_ids"
    " description"
)


def import_statement(
    provider: ProviderName,
    file: Annotated[
        Path | None, typer.Argument(help="A CSV file; without it, the provider is asked.")
    ] = None,
    first: Annotated[
        date | None, typer.Option("--from", metavar="DAY", parser=read_day, help="Default: --to.")
    ] = None,
    last: Annotated[
        date | None,
        typer.Option("--to", metavar="DAY", parser=read_day, help="Default: yesterday."),
    ] = None,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Import a provider's statement, from a file or from the provider, and compare it."""
    until = last or datetime.now(LAGOS).date() - timedelta(days=1)
    since = first or until

    async def command(tools: Tools) -> ImportResult:
        await check_provider(tools, provider)
        if file is not None:
            return await importing.import_file(tools.db, provider, _content(file))
        return await _import_from_provider(tools, provider, since, until)

    print_fields(msgspec.structs.asdict(run(data, command)), as_json=as_json)


async def _import_from_provider(
    tools: Tools, provider: str, first: date, last: date
) -> ImportResult:
    async with configured_rails(tools) as rails:
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


def show_statement(
    provider: Annotated[str | None, typer.Argument(metavar="[PROVIDER]")] = None,
    day: Annotated[
        date | None, typer.Option("--day", metavar="DAY", parser=read_day, help="Only this day.")
    ] = None,
    limit: Limit = 31,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Show the days whose statements were imported; exit 1 if something does not match.

    With --day, the unmatched transactions and lines are listed too.
    """

    async def command(tools: Tools) -> tuple[list[ReconciledDay], list[Unmatched]]:
        if provider is not None:
            await check_provider(tools, provider)
        found = await days.days(tools.db, provider, day, limit)
        listed = [] if day is None else [await unmatched.of_day(tools.db, each) for each in found]
        return found, [each for rows in listed for each in rows]

    found, open_ = run(data, command)
    totals, rows = as_rows(DAY_COLUMNS, found), as_rows(UNMATCHED_COLUMNS, open_)
    if as_json:
        print_json({"days": totals, "unmatched": rows})
    else:
        print_rows(totals, as_json=False, empty="No statement was imported.")
        if rows:
            print()
            print_rows(rows, as_json=False, empty="")
    if any(each.unmatched for each in found):
        raise typer.Exit(1)
