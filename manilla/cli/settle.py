"""`manilla settle` and `manilla reconcile`: our ledger and the balances at providers."""

from typing import Annotated, Any

import typer

from manilla.cli.instance import Data, InstanceRefusal, Tools, run
from manilla.cli.output import Json, print_fields, print_rows
from manilla.cli.provider import Named, configured_rails
from manilla.kit.amount_input import parse_amount
from manilla.kit.errors import Refusal
from manilla.kit.money import MoneyError
from manilla.ledger import settlements
from manilla.ledger.settlements import SettlementKind, SettlementResult
from manilla.payouts import reconcile as reconciliation
from manilla.payouts.reconcile import Reconciled
from manilla.providers.rails import open_session


class Silent(Refusal):
    message = "A provider sent no usable response."


def settle(
    kind: Annotated[
        SettlementKind, typer.Argument(help="For example top_up: from our bank to the provider.")
    ],
    provider: Named,
    amount: Annotated[str, typer.Argument(metavar="AMOUNT", help="Major units: 1000.00")],
    note: Annotated[str, typer.Option("--note", help="The reason, or the bank's reference.")],
    currency: Annotated[str, typer.Option("--currency", metavar="CODE")] = "NGN",
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Record a provider top-up, a settlement to our bank, or a fee that was kept or returned."""

    async def command(tools: Tools) -> SettlementResult:
        try:
            money = parse_amount(amount, currency)
        except MoneyError as error:
            raise InstanceRefusal(str(error)) from None
        return await settlements.settle(tools.db, kind, provider, money, note)

    settled = run(data, command)
    shown = {
        "trx_id": settled.trx_id,
        "kind": settled.kind,
        "provider": settled.provider,
        "currency": settled.amount.currency,
        "amount": settled.amount.amount,
    }
    print_fields(shown, as_json=as_json)


def reconcile(as_json: Json = False, data: Data = None) -> None:
    """Compare our ledger with the providers; exit 1 if they differ or one does not respond."""

    async def command(tools: Tools) -> list[Reconciled]:
        async with open_session() as session:
            rails = configured_rails(tools, session)
            await rails.load()
            return await reconciliation.reconcile(tools.db, rails)

    reports = run(data, command)
    rows = [_row(report) for report in reports]
    print_rows(rows, as_json=as_json, empty="No provider is configured.")
    silent = [report.provider for report in reports if report.balance is None]
    if silent:
        raise Silent(f"No usable response from {', '.join(silent)}: not compared.")
    if any(row["transfers_differ"] or row["difference"] for row in rows):
        raise typer.Exit(1)


def _row(report: Reconciled) -> dict[str, Any]:
    return {
        "provider": report.provider,
        "currency": report.currency,
        "ledger": report.ledger.amount,
        "under_way": report.under_way.amount,
        "coming_in": report.coming_in.amount,
        "balance": report.balance.amount if report.balance else None,
        "difference": report.difference.amount if report.difference else None,
        "result": report.result,
        "transfers_asked": report.transfers_asked,
        "transfers_differ": report.transfers_differ,
    }
