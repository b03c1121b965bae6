"""`manilla account`: a merchant's saved payout accounts."""

from typing import Annotated, Any

import msgspec
import typer

from manilla.cli.instance import Data, InstanceRefusal, Tools, run
from manilla.cli.options import MerchantId
from manilla.cli.output import Json, as_row, as_rows, print_fields, print_rows
from manilla.cli.providers.rails import known_banks
from manilla.kit.fields import insert_after
from manilla.merchants import merchants
from manilla.methods import catalogue
from manilla.methods.method import Method, MethodKind
from manilla.payouts.beneficiaries import accounts, beneficiary
from manilla.payouts.beneficiaries.accounts import SavedAccount

app = typer.Typer(no_args_is_help=True)

COLUMNS = accounts.FIELDS.select("id merchant_id method beneficiary label active created_at")
FieldValues = Annotated[
    list[str],
    typer.Argument(metavar="FIELD=VALUE...", help="Fields as in payout-methods: bank_code=058"),
]


@app.command()
def add(
    merchant_id: MerchantId,
    method_code: Annotated[str, typer.Argument(metavar="METHOD", help="A withdrawal method.")],
    values: FieldValues,
    label: Annotated[str | None, typer.Option("--label", help="A name for the account.")] = None,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Save a payout account; pass its ID as withdraw_account_id."""

    async def command(tools: Tools) -> SavedAccount:
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
        return saved

    print_fields(as_row(COLUMNS, run(data, command)), as_json=as_json)


@app.command("list")
def list_accounts(merchant_id: MerchantId, as_json: Json = False, data: Data = None) -> None:
    """List a merchant's saved payout accounts."""

    async def command(tools: Tools) -> list[dict[str, Any]]:
        await merchants.get(tools.db, merchant_id)
        saved = await accounts.accounts(tools.db, merchant_id)
        async with known_banks(tools) as banks:
            return as_rows(insert_after(COLUMNS, "beneficiary", "bank_name", banks.name_of), saved)

    rows = run(data, command)
    if not as_json:
        rows = [row | {"beneficiary": _in_words(row["beneficiary"])} for row in rows]
    print_rows(rows, as_json=as_json, empty="There are no saved accounts.")


@app.command()
def remove(
    merchant_id: MerchantId,
    account_id: Annotated[int, typer.Argument(metavar="ACCOUNT", min=1, max=accounts.ID_MAX)],
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Remove a saved account; payouts already made to it are not affected."""

    async def command(tools: Tools) -> SavedAccount:
        saved = await accounts.find(tools.db, merchant_id, account_id)
        if saved is None or not await accounts.remove(tools.db, merchant_id, account_id):
            raise InstanceRefusal(f"Merchant {merchant_id} has no active account {account_id}.")
        return msgspec.structs.replace(saved, active=False)

    print_fields(as_row(COLUMNS, run(data, command)), as_json=as_json)


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
