"""`manilla bank`: what each provider account's own bank codes mean."""

from typing import Annotated, Any

import typer

from manilla.banks import learning, names
from manilla.banks.learning import RailBank
from manilla.banks.nigeria import BY_ANY_CODE, BY_CODE, NigerianBank
from manilla.cli.instance import Data, Tools, run
from manilla.cli.options import ProviderName
from manilla.cli.output import Json, print_fields, print_rows
from manilla.cli.providers.rails import check_provider
from manilla.kit.errors import Refusal

app = typer.Typer(no_args_is_help=True)

OwnCode = Annotated[str, typer.Argument(metavar="CODE", help="The provider's own code.")]
BankText = Annotated[
    str, typer.Argument(metavar="BANK", help="Central bank code, NIP code or exact name.")
]


class NoSuchBank(Refusal):
    status, code = 404, "NOT_FOUND"
    message = "There is no such bank."


@app.command("list")
def list_(
    provider: Annotated[str | None, typer.Argument(metavar="[PROVIDER]")] = None,
    unmatched: Annotated[
        bool, typer.Option("--unmatched", help="Only codes that need a bank.")
    ] = False,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """List the providers' own bank codes with the banks that they mean, unmatched ones first."""

    async def command(tools: Tools) -> list[RailBank]:
        if provider is not None:
            await check_provider(tools, provider)
        rows = await learning.load(tools.db, provider)
        wanted = [row for row in rows if row.needs_attention or not unmatched]
        return sorted(wanted, key=lambda row: not row.needs_attention)

    found = run(data, command)
    print_rows([_described(row) for row in found], as_json=as_json, empty="No bank codes.")


@app.command()
def show(bank: BankText, as_json: Json = False, data: Data = None) -> None:
    """Show a bank: its codes and names, and its code at each provider."""
    found = _bank(bank)

    async def command(tools: Tools) -> dict[str, str]:
        rows = await learning.load(tools.db)
        return {
            row.provider: row.code
            for row in rows
            if row.bank == found.code and row.is_certain and row.is_listed
        }

    fields: dict[str, Any] = {
        "code": found.code,
        "nip_code": found.nip_code or None,
        "name": found.name,
        "kind": found.kind,
        "other_codes": list(found.other_codes),
        "aliases": list(found.aliases),
        "former_names": list(found.former_names),
        "providers": run(data, command),
    }
    print_fields(fields, as_json=as_json)


@app.command("map")
def map_(
    provider: ProviderName, code: OwnCode, bank: BankText, as_json: Json = False, data: Data = None
) -> None:
    """Decide which bank a provider's own code means. Takes effect within a second."""
    _change(provider, code, _bank(bank).code, as_json, data)


@app.command()
def unmap(provider: ProviderName, code: OwnCode, as_json: Json = False, data: Data = None) -> None:
    """Decide that a provider's own code means none of the known banks."""
    _change(provider, code, None, as_json, data)


def _change(provider: str, code: str, bank: str | None, as_json: bool, data: Data) -> None:
    async def command(tools: Tools) -> RailBank:
        await check_provider(tools, provider)
        return await learning.map_code(tools.db, provider, code, bank)

    print_fields(_described(run(data, command)), as_json=as_json)


def _bank(text: str) -> NigerianBank:
    bank = BY_ANY_CODE.get(text) or names.named(text)
    if bank is None:
        similar = ", ".join(each.text for each in names.search(text, 5))
        raise NoSuchBank(
            f"There is no bank {text!r}." + (f" Similar: {similar}." if similar else "")
        )
    return bank


def _described(row: RailBank) -> dict[str, Any]:
    return {
        "provider": row.provider,
        "code": row.code,
        "name": row.name,
        "bank": row.bank,
        "bank_name": BY_CODE[row.bank].name if row.bank in BY_CODE else None,
        "matched_by": row.matched_by,
        "doubt": row.doubt,
        "listed": row.is_listed,
        "first_seen_at": row.first_seen_at,
        "last_seen_at": row.last_seen_at,
    }
