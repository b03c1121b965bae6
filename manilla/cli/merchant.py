"""`manilla merchant`: creates, changes and shows merchants, and rotates their credentials."""

from collections.abc import Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import typer

from manilla.approvals.kinds import MerchantChange
from manilla.cli import changes, secret_input
from manilla.cli.instance import Data, Tools, command, run
from manilla.cli.options import MerchantId, Switch, percent
from manilla.cli.output import Json, as_row
from manilla.kit.environment import Environment
from manilla.kit.listing import in_pages
from manilla.kit.listing.sorting import SortOrder
from manilla.merchants import merchants, queries, roster
from manilla.merchants.merchants import (
    CommissionBearer,
    MerchantLevel,
    MerchantStatus,
    MerchantUpdate,
    OverpaidRule,
    UnderpaidRule,
)
from manilla.merchants.roster import MerchantFilter
from manilla.methods import catalogue
from manilla.methods.method import MethodKind

app = typer.Typer(no_args_is_help=True)

COLUMNS = roster.FIELDS.select(
    "id name email status status_reason commission_percent commission_bearer gateways payouts kyc"
    " phone has_bvn currencies overpaid underpaid created_at updated_at"
)


class FirstStatus(StrEnum):
    PENDING = "pending"
    APPROVED = "approved"


class Check(StrEnum):
    VERIFIED = "verified"
    REQUIRED = "required"


Currencies = Annotated[
    list[str] | None,
    typer.Option("--currency", metavar="CODE", help="A currency code. Can be repeated."),
]


@command(app)
async def create(
    tools: Tools,
    name: str,
    email: str,
    status: Annotated[FirstStatus, typer.Option()] = FirstStatus.PENDING,
    currency: Currencies = None,
) -> None:
    """Create a merchant. Its keys and secrets are shown only once."""
    new = await merchants.create(
        tools.db,
        tools.keyring,
        name=name,
        email=email,
        status=MerchantStatus(status),
        currencies=currency or ["NGN"],
    )
    tools.print_fields(msgspec.to_builtins(new))


@app.command("set")
def set_(
    merchant_id: MerchantId,
    status: Annotated[MerchantStatus | None, typer.Option()] = None,
    reason: Annotated[
        str | None, typer.Option(help="The reason, shown to the merchant. Requires --status.")
    ] = None,
    commission_percent: Annotated[Decimal | None, typer.Option(parser=percent, metavar="P")] = None,
    commission_bearer: Annotated[CommissionBearer | None, typer.Option()] = None,
    gateways: Annotated[
        str | None, typer.Option(metavar="CODE,CODE|all", help="Gateways on checkout.")
    ] = None,
    payouts: Annotated[Switch | None, typer.Option()] = None,
    kyc: Annotated[Check | None, typer.Option()] = None,
    phone: Annotated[Check | None, typer.Option()] = None,
    level: Annotated[
        MerchantLevel | None, typer.Option(help="The level, which selects the limits that apply.")
    ] = None,
    overpaid: Annotated[
        OverpaidRule | None,
        typer.Option(help="What to do with a bank transfer above the amount due."),
    ] = None,
    underpaid: Annotated[
        UnderpaidRule | None,
        typer.Option(help="What to do with a bank transfer below the amount due."),
    ] = None,
    bvn: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER|-", help="The BVN, stored encrypted. `-` reads it from standard input."
        ),
    ] = None,
    currency: Currencies = None,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Change the given fields of a merchant. Takes effect within a second."""
    if reason is not None and status is None:
        raise typer.BadParameter("requires --status.", param_hint="--reason")
    wanted = MerchantUpdate(
        status=status,
        status_reason=reason,
        commission_percent=commission_percent,
        commission_bearer=commission_bearer,
        gateways=_codes(gateways),
        payouts_enabled=None if payouts is None else payouts is Switch.ON,
        kyc_verified=None if kyc is None else kyc is Check.VERIFIED,
        phone_verified=None if phone is None else phone is Check.VERIFIED,
        level=level,
        overpaid=overpaid,
        underpaid=underpaid,
        bvn=None if bvn is None else secret_input.read_secret("--bvn", bvn),
        currencies=currency or None,
    )
    run(data, lambda tools: _update(tools, merchant_id, wanted), as_json=as_json)


async def _update(tools: Tools, merchant_id: int, wanted: MerchantUpdate) -> None:
    await _check_gateways(tools, wanted.gateways or ())
    tools.print_fields(_described(await changes.apply(tools, MerchantChange(merchant_id, wanted))))


@command(app)
async def show(tools: Tools, merchant_id: MerchantId) -> None:
    """Show a merchant."""
    merchant = await merchants.get(tools.db, merchant_id)
    keys = {}
    for environment in Environment:
        rows = await queries.credentials(tools.db, merchant_id, environment)
        keys[environment.value] = {
            "merchant_key": rows[0].merchant_key,
            "live_credentials": len(rows),
        }
    tools.print_fields({**_described(merchant), **keys})


@command(app, "list")
async def list_(tools: Tools) -> None:
    """List all merchants."""
    pages = in_pages(roster.merchants, tools.db, MerchantFilter(sort=SortOrder.OLDEST))
    rows = [_described(merchant) async for page in pages for merchant in page]
    tools.print_rows(rows, "There are no merchants yet.", ("id", "name", "email", "status"))


@command(app)
async def rotate(
    tools: Tools,
    merchant_id: MerchantId,
    environment: Annotated[Environment, typer.Option()],
    overlap_minutes: Annotated[
        int, typer.Option(min=0, metavar="N", help="How long the old key and secret stay valid.")
    ] = 0,
) -> None:
    """Replace the main API key and secret. They are shown only once. The owners get an email."""
    new = await merchants.rotate(
        tools.db, tools.keyring, merchant_id, environment, overlap_minutes=overlap_minutes
    )
    shown = {"id": merchant_id, "environment": environment, **msgspec.to_builtins(new)}
    tools.print_fields(shown)


def _codes(text: str | None) -> list[str] | None:
    if text is None:
        return None
    if text == "all":
        return []
    codes = [code.strip() for code in text.split(",") if code.strip()]
    if not codes:
        raise typer.BadParameter("give at least one gateway, or `all`.", param_hint="--gateways")
    return codes


async def _check_gateways(tools: Tools, codes: Sequence[str]) -> None:
    methods = await catalogue.load(tools.db)
    known = {method.code for method in methods if method.kind is MethodKind.DEPOSIT}
    unknown = [code for code in codes if code not in known]
    if unknown:
        raise catalogue.UnknownMethod(f"There is no deposit method {unknown[0]!r}.")


def _described(row: queries.MerchantRow) -> dict[str, Any]:
    return {
        **as_row(COLUMNS, row),
        "commission_percent": row.commission_percent.normalize() + 0,
        "gateways": "all" if row.gateways is None else row.gateways,
    }
