"""`manilla margin`: what was earned, paid and left, and what a plan would have earned."""

from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from manilla.cli.instance import Tools, command
from manilla.cli.options import Limit, OfMerchant, read_day
from manilla.cli.output import as_rows, print_csv
from manilla.kit.clock import last_days
from manilla.kit.environment import Environment
from manilla.kit.fields import Columns
from manilla.kit.listing import first, in_pages
from manilla.margin import figures, plans, runs, transactions
from manilla.margin.figures import MarginFilter, MarginGroup
from manilla.margin.runs import RunLimit
from manilla.prices import store
from manilla.prices.price import PlanVersion

DAYS = 30
NO_LIMIT = RunLimit(transactions=10**12, seconds=10**9)


class Report(StrEnum):
    WAY = "way"
    PROVIDER = "provider"
    MERCHANT = "merchant"
    DAY = "day"
    DETAIL = "detail"
    LOSSES = "losses"
    FEES = "fees"
    TRY = "try"


@command()
async def margin(
    tools: Tools,
    report: Annotated[
        Report,
        typer.Argument(
            help="What was earned and paid by way, provider, merchant or day, or in `detail`;"
            " `losses`: transactions that cost more than they earned; `fees`: providers' fees and"
            " their plans; `try`: what PLAN would have earned."
        ),
    ],
    plan: Annotated[
        str,
        typer.Argument(metavar="[PLAN]", help="For `try`: its code, or a .csv or .json file."),
    ] = "",
    version: Annotated[
        int | None, typer.Option("--version", help="The plan's version. Default: the last.")
    ] = None,
    since: Annotated[str, typer.Option("--since", metavar="DAY", help="Default: 30 days.")] = "",
    until: Annotated[str, typer.Option("--until", metavar="DAY", help="The last day.")] = "",
    merchant: OfMerchant = None,
    environment: Annotated[Environment, typer.Option("--environment")] = Environment.PRODUCTION,
    currency: Annotated[str | None, typer.Option("--currency")] = None,
    method: Annotated[str | None, typer.Option("--method", help="A method's code.")] = None,
    provider: Annotated[str | None, typer.Option("--provider")] = None,
    limit: Limit = 1_000,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
) -> None:
    """Show what was charged, what providers took, and what is left. Nothing is written."""
    last = read_day(until) if until else last_days(1)[0]
    wanted = MarginFilter(
        since=read_day(since) if since else last - timedelta(days=DAYS - 1),
        until=last,
        environment=environment,
        currency=None if currency is None else currency.upper(),
        merchant_id=merchant,
        method_code=method,
        provider=provider,
    )
    columns, found = await _run(tools, report, wanted, plan, version, limit)
    rows = as_rows(columns, found)
    if as_csv:
        print_csv(rows, columns)
    else:
        tools.print_rows(rows, empty="There are no transactions in this period.")


async def _run(
    tools: Tools, report: Report, wanted: MarginFilter, plan: str, version: int | None, limit: int
) -> tuple[Columns[Any], list[Any]]:
    if report is Report.LOSSES:
        pages = in_pages(transactions.losses, tools.db, wanted)
        return transactions.LOSSES, await first(pages, limit)
    if report is Report.TRY:
        tried = await _version(tools, plan, version)
        return runs.TRIED, (await plans.try_plan(tools.db, wanted, tried, NO_LIMIT)).rows
    if report is Report.FEES:
        versions = (await store.load(tools.db)).versions
        found = await plans.provider_fees(tools.db, wanted, versions, NO_LIMIT)
        return runs.FEES, found.rows
    by = MarginGroup(report)
    return figures.columns(by), await figures.rows(tools.db, wanted, by)


async def _version(tools: Tools, plan: str, number: int | None) -> PlanVersion:
    if plan.endswith((".csv", ".json")):
        return plans.read(_text(Path(plan)))
    for each in reversed((await store.load(tools.db)).versions):
        if each.plan == plan and not each.merchant_id and number in (None, each.version):
            return each
    raise typer.BadParameter(f"There is no such version of {plan!r}.", param_hint="PLAN")


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{file} cannot be read: {error}.", param_hint="PLAN") from None
