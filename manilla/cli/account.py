"""`manilla account`: saves, lists and removes merchants' payout accounts."""

from typing import Annotated, Any

import msgspec
import typer

from manilla.beneficiaries import accounts, beneficiary
from manilla.cli.instance import InstanceRefusal, Tools, command
from manilla.cli.options import MerchantId
from manilla.cli.output import as_row, as_rows
from manilla.cli.providers.rails import known_banks
from manilla.kit.fields import insert_after
from manilla.merchants import merchants
from manilla.methods import catalogue
from manilla.methods.method import Method, MethodKind

app = typer.Typer(no_args_is_help=True)

COLUMNS = accounts.FIELDS.select("id merchant_id method beneficiary label active created_at")
FieldValues = Annotated[
    list[str],
    typer.Argument(metavar="FIELD=VALUE...", help="Fields as in payout-methods: bank_code=058"),
]


@command(app)
async def add(
    tools: Tools,
    merchant_id: MerchantId,
    method_code: Annotated[str, typer.Argument(metavar="METHOD", help="A withdrawal method.")],
    values: FieldValues,
    label: Annotated[str | None, typer.Option("--label", help="A name for the account.")] = None,
) -> None:
    """Save a payout account. API requests can send its ID as withdraw_account_id."""
    await merchants.get(tools.db, merchant_id)
    method = await _method(tools, method_code)
    who = beneficiary.read(method, dict(_pair(value) for value in values))
    account_id = await accounts.add(
        tools.db,
        merchant_id,
        method.code,
        who.fields,
        account_name=who.fields.get("account_name"),
        label=label,
    )
    saved = await accounts.find(tools.db, merchant_id, account_id)
    assert saved is not None
    tools.print_fields(as_row(COLUMNS, saved))


@command(app, "list")
async def list_accounts(tools: Tools, merchant_id: MerchantId) -> None:
    """List a merchant's saved payout accounts."""
    await merchants.get(tools.db, merchant_id)
    saved = await accounts.accounts(tools.db, merchant_id)
    async with known_banks(tools) as banks:
        rows = as_rows(insert_after(COLUMNS, "beneficiary", "bank_name", banks.name_of), saved)
    if not tools.as_json:
        rows = [row | {"beneficiary": _in_words(row["beneficiary"])} for row in rows]
    tools.print_rows(rows, empty="There are no saved accounts.")


@command(app)
async def remove(
    tools: Tools,
    merchant_id: MerchantId,
    account_id: Annotated[int, typer.Argument(metavar="ACCOUNT", min=1, max=accounts.ID_MAX)],
) -> None:
    """Remove a saved account. Existing payouts to this account are not affected."""
    saved = await accounts.find(tools.db, merchant_id, account_id)
    if saved is None or not await accounts.remove(tools.db, merchant_id, account_id):
        raise InstanceRefusal(f"Merchant {merchant_id} has no active account {account_id}.")
    tools.print_fields(as_row(COLUMNS, msgspec.structs.replace(saved, active=False)))


async def _method(tools: Tools, code: str) -> Method:
    for method in await catalogue.load(tools.db):
        if method.code == code and method.kind is MethodKind.WITHDRAW:
            return method
    raise catalogue.UnknownMethod(f"There is no withdrawal method {code!r}.")


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"{text!r} is not FIELD=VALUE.", param_hint="FIELD=VALUE")
    return name, value


def _in_words(beneficiary: dict[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in beneficiary.items())
