"""The commands `manilla price-plan` and `manilla tax`."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from manilla.approvals.kinds import Change
from manilla.cli import changes
from manilla.cli.instance import InstanceRefusal, Tools, command
from manilla.cli.options import Switch
from manilla.prices import input, price, store, wording
from manilla.prices.book import PriceBook
from manilla.prices.changes import (
    PlanAssignment,
    PlanChange,
    PlanWithdrawal,
    TaxAddition,
    last_version,
    versions_of,
)
from manilla.prices.price import PlanTerms
from manilla.prices.store import ANY_MERCHANT, OWN, Prices

plans = typer.Typer(no_args_is_help=True)
taxes = typer.Typer(no_args_is_help=True)

Plan = Annotated[str, typer.Argument(metavar="PLAN", help="The plan's code, such as standard.")]
Merchant = Annotated[int | None, typer.Option(metavar="ID", help="A merchant's id.")]
Starts = Annotated[
    str,
    typer.Option(metavar="TIME", help="In Lagos time, such as 2026-12-01T00:00. Default: at once."),
]
Amount = Annotated[str, typer.Option(metavar="AMOUNT")]


@command(plans, "list")
async def list_(tools: Tools) -> None:
    """List the plans, with the version in force and the last version."""
    prices, now = await store.load(tools.db), datetime.now(UTC)
    default = PriceBook(prices).plan(ANY_MERCHANT, now)
    codes = sorted({each.plan for each in prices.versions if not each.merchant_id})
    tools.print_rows([_described(prices, code, default, now) for code in codes])


def _described(prices: Prices, code: str, default: str | None, now: datetime) -> dict[str, object]:
    versions = versions_of(prices, code, ANY_MERCHANT)
    now_in_force = price.in_force(versions, now)
    return {
        "plan": code,
        "title": versions[-1].content.title,
        "in_force": now_in_force.version if now_in_force else None,
        "last": versions[-1].version,
        "last_starts_at": versions[-1].starts_at,
        "default": code == default,
    }


@command(plans)
async def show(tools: Tools, plan: Plan = OWN, merchant: Merchant = None) -> None:
    """Print the lines of a plan's last version, or of a merchant's exceptions, as CSV."""
    versions = versions_of(await store.load(tools.db), plan, merchant or ANY_MERCHANT)
    lines = next((each.content.lines for each in reversed(versions) if not each.is_withdrawn), ())
    typer.echo(input.write_lines(lines), nl=False)


@command(plans, "set")
async def set_(
    tools: Tools,
    plan: Plan,
    file: Annotated[Path, typer.Option(help="A CSV file, as `manilla price-plan show` prints it.")],
    title: Annotated[str, typer.Option()],
    starts: Starts = "",
    returns_commission: Annotated[
        Switch, typer.Option(help="Whether refunds return the merchant's commission.")
    ] = Switch.OFF,
    merchant: Merchant = None,
) -> None:
    """Add a version of a plan. With --merchant and the plan `own`, a merchant's exceptions.

    What a transaction has cost never changes. In production mode, a second administrator must
    approve this.
    """
    owner = merchant or ANY_MERCHANT
    content = PlanTerms(
        title=title,
        lines=input.read_lines(_read(file)),
        returns_commission=returns_commission is Switch.ON,
    )
    last = last_version(await store.load(tools.db), plan, owner)
    wanted = PlanChange(
        plan=plan,
        merchant_id=owner,
        after=last,
        starts_at=input.read_start(starts),
        content=content,
    )
    await _apply(tools, wanted, {"plan": plan, "version": last + 1, "lines": len(content.lines)})


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8-sig")  # spreadsheets begin a file with a byte order mark
    except (OSError, UnicodeDecodeError) as error:
        raise InstanceRefusal(f"{file} cannot be read: {error}.") from error


@command(plans)
async def withdraw(
    tools: Tools,
    plan: Plan,
    version: Annotated[int, typer.Argument(metavar="VERSION")],
    merchant: Merchant = None,
) -> None:
    """Withdraw a version that has not started.

    In production mode, a second administrator must approve this.
    """
    wanted = PlanWithdrawal(plan=plan, version=version, merchant_id=merchant or ANY_MERCHANT)
    await _apply(tools, wanted, {"plan": plan, "withdrawn": version})


@command(plans)
async def assign(
    tools: Tools,
    plan: Annotated[str, typer.Argument(metavar="PLAN|none")],
    merchant: Merchant = None,
    starts: Starts = "",
) -> None:
    """Give a merchant a plan. Without --merchant, the plan is the default of all merchants.

    In production mode, a second administrator must approve this.
    """
    wanted = PlanAssignment(
        plan=None if plan == "none" else plan,
        merchant_id=merchant or ANY_MERCHANT,
        starts_at=input.read_start(starts),
    )
    await _apply(tools, wanted, {"plan": plan, "merchant": merchant})


@command(taxes, "list")
async def list_taxes(tools: Tools) -> None:
    """List all tax rules, oldest first."""
    rules = (await store.load(tools.db)).rules
    in_force = {rule.number for rule in price.rules_in_force(rules, datetime.now(UTC))}
    tools.print_rows(
        [
            {
                "number": rule.number,
                "name": rule.name,
                "since": rule.since,
                "in_force": rule.number in in_force,
                **wording.describe_tax(rule.content),
            }
            for rule in rules
        ]
    )


@command(taxes)
async def add(
    tools: Tools,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Such as vat or stamp_duty.")],
    on: Annotated[
        str,
        typer.Option(
            metavar="DIRECTIONS", help="payment, payout and settlement, separated by spaces."
        ),
    ],
    currency: Annotated[str, typer.Option(metavar="CODE")] = "NGN",
    base: Annotated[str, typer.Option(metavar="fee|transfer", help="What is taxed.")] = "fee",
    percent: Annotated[str, typer.Option(metavar="P")] = "",
    fixed: Amount = "",
    threshold: Amount = "",
    environment: Annotated[str, typer.Option(metavar="sandbox|production")] = "",
    borne_by: Annotated[
        str, typer.Option(metavar="payer|merchant|customer|platform", help="Who pays the tax.")
    ] = "payer",
    included: Annotated[Switch, typer.Option(help="Whether the fee contains it.")] = Switch.OFF,
    exempt: Annotated[
        str, typer.Option(metavar="PURPOSES", help="salary, own_account, or both with a space.")
    ] = "",
    collected_by: Annotated[
        str, typer.Option(metavar="us|provider", help="Who pays it to the authority.")
    ] = "us",
    returned: Annotated[
        Switch, typer.Option(help="Whether a failed transaction returns it.")
    ] = Switch.ON,
    starts: Starts = "",
) -> None:
    """Add a rule of a tax. It replaces the tax's rule for the same transactions.

    Without --percent and --fixed, the tax ends. In production mode, a second administrator must
    approve this.
    """
    fields = {
        "directions": on,
        "currency": currency,
        "base": base,
        "percent": percent,
        "fixed": fixed,
        "threshold": threshold,
        "environment": environment,
        "borne_by": borne_by,
        "included": "yes" if included is Switch.ON else "no",
        "exempt": exempt,
        "collected_by": collected_by,
        "returned": "yes" if returned is Switch.ON else "no",
    }
    content = input.read_tax(fields)
    wanted = TaxAddition(name=name, content=content, starts_at=input.read_start(starts))
    await _apply(tools, wanted, {"name": name, **wording.describe_tax(content)})


async def _apply(tools: Tools, wanted: Change, about: dict[str, object]) -> None:
    await changes.apply(tools, wanted)
    tools.print_fields(about)
