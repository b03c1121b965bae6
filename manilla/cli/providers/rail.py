"""`manilla rail`: how rails deliver to each bank; stops new payouts through an account."""

from typing import Any

import typer

from manilla.banks.registry import BankRegistry
from manilla.cli.instance import Data, Tools, run
from manilla.cli.options import ProviderName
from manilla.cli.output import Json, print_fields, print_rows
from manilla.cli.providers.rails import check_provider
from manilla.payouts.routing.deliveries import Deliveries
from manilla.payouts.routing.overview import BankReport, RailReport, overview
from manilla.platform.changes import ChangeWatch
from manilla.providers import credentials, draining, queries
from manilla.providers.port import Direction

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_(as_json: Json = False, data: Data = None) -> None:
    """List the rails and how they delivered to each bank in the last 24 hours, problems first.

    The row without a bank is the sum of the rail. Half of the payouts were delivered within
    `median seconds`, and 95 of 100 within `p95 seconds`.
    """

    async def command(tools: Tools) -> list[RailReport]:
        registry = BankRegistry(tools.db, ChangeWatch(tools.db))
        await registry.load()
        accounts = await credentials.load(tools.db, tools.keyring)
        active = [name for name, each in accounts.items() if each.is_open(Direction.PAY_OUT)]
        return await overview(tools.db, active, Deliveries(tools.db, registry).bank_code)

    rows = [
        _described(rail, bank) for rail in run(data, command) for bank in (rail.total, *rail.banks)
    ]
    print_rows(rows, as_json=as_json, empty="No rail is configured for payouts.")


def _described(rail: RailReport, bank: BankReport) -> dict[str, Any]:
    return {
        "account": rail.provider,
        "bank": bank.bank,
        "bank_name": bank.name,
        "down_since": rail.down_since,
        "payments_down_since": rail.payments_down_since,
        "drained_since": rail.drained_since,
        "failing_since": bank.failing_since,
        "delivered": bank.outcomes.delivered,
        "failed": bank.outcomes.failed,
        "success_share": bank.outcomes.success_share,
        "median_seconds": bank.median_seconds,
        "p95_seconds": bank.p95_seconds,
        "open": bank.open,
        "last_error": bank.outcomes.last_error,
        "last_error_at": bank.outcomes.last_error_at,
    }


@app.command()
def drain(account: ProviderName, as_json: Json = False, data: Data = None) -> None:
    """Stop new payouts through an account; those already sent are followed to their end.

    Payouts of the automatic method use other rails, and unsent ones move there. Payouts of the
    account's own method are rejected. Takes effect within a second.
    """
    _set(account, as_json, data, is_drained=True)


@app.command()
def undrain(account: ProviderName, as_json: Json = False, data: Data = None) -> None:
    """Permit payouts through a drained account again. Takes effect within a second."""
    _set(account, as_json, data, is_drained=False)


def _set(account: str, as_json: bool, data: Data, *, is_drained: bool) -> None:
    async def command(tools: Tools) -> dict[str, object]:
        await check_provider(tools, account)
        change = draining.drain if is_drained else draining.undrain
        is_changed = await change(tools.db, account)
        since = (await queries.drained_rails(tools.db)).get(account)
        return {"account": account, "drained_since": since, "changed": is_changed}

    print_fields(run(data, command), as_json=as_json)
