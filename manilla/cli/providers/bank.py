"""`manilla bank`: maps each provider account's own bank codes to banks."""

from typing import Annotated, Any

import typer

from manilla.banks import learning, names
from manilla.banks.learning import RailBank
from manilla.banks.nigeria import BY_ANY_CODE, BY_CODE, NigerianBank
from manilla.cli.instance import Data, Tools, command, run
from manilla.cli.options import OptionalProvider, ProviderName
from manilla.cli.output import Json
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


@command(app, "list")
async def list_(
    tools: Tools,
    provider: OptionalProvider = None,
    unmatched: Annotated[
        bool, typer.Option("--unmatched", help="Only codes that need a bank.")
    ] = False,
) -> None:
    """List the providers' own bank codes and their banks, unmatched codes first."""
    await check_provider(tools, provider)
    rows = await learning.load(tools.db, provider)
    wanted = [row for row in rows if row.needs_attention or not unmatched]
    found = sorted(wanted, key=lambda row: not row.needs_attention)
    tools.print_rows([_described(row) for row in found], empty="No bank codes.")


@app.command()
def show(bank: BankText, as_json: Json = False, data: Data = None) -> None:
    """Show a bank's codes and names, and its code at each provider."""
    found = _bank(bank)
    run(data, lambda tools: _show(tools, found), as_json=as_json)


async def _show(tools: Tools, bank: NigerianBank) -> None:
    rows = await learning.load(tools.db)
    fields: dict[str, Any] = {
        "code": bank.code,
        "nip_code": bank.nip_code or None,
        "name": bank.name,
        "kind": bank.kind,
        "other_codes": list(bank.other_codes),
        "aliases": list(bank.aliases),
        "former_names": list(bank.former_names),
        "providers": {
            row.provider: row.code
            for row in rows
            if row.bank == bank.code and row.is_certain and row.is_listed
        },
    }
    tools.print_fields(fields)


@app.command("map")
def map_(
    provider: ProviderName, code: OwnCode, bank: BankText, as_json: Json = False, data: Data = None
) -> None:
    """Map a provider's own bank code to a bank. Takes effect within a second."""
    meant = _bank(bank).code
    run(data, lambda tools: _change(tools, provider, code, meant), as_json=as_json)


@command(app)
async def unmap(tools: Tools, provider: ProviderName, code: OwnCode) -> None:
    """Mark a provider's own bank code as matching no known bank."""
    await _change(tools, provider, code, None)


async def _change(tools: Tools, provider: str, code: str, bank: str | None) -> None:
    await check_provider(tools, provider)
    tools.print_fields(_described(await learning.map_code(tools.db, provider, code, bank)))


def _bank(text: str) -> NigerianBank:
    bank = BY_ANY_CODE.get(text) or names.find_bank(text)
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
