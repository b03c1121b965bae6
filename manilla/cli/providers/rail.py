"""`manilla rail`: shows payout results per rail and bank, and stops new payouts."""

from typing import Any

import typer

from manilla.banks.registry import BankRegistry
from manilla.cli.instance import Tools, command
from manilla.cli.options import ProviderName
from manilla.cli.providers.rails import check_provider
from manilla.kit.changes import ChangeWatch
from manilla.kit.display import percentage
from manilla.providers import credentials, draining, queries
from manilla.providers.port import Direction
from manilla.routing.deliveries import Deliveries
from manilla.routing.overview import BankReport, RailReport, overview

app = typer.Typer(no_args_is_help=True)


@command(app, "list")
async def list_(tools: Tools) -> None:
    """List the rails and their deliveries to each bank in the last 24 hours, problems first.

    The row without a bank is the rail's total. Half of the payouts were delivered within `median
    seconds`, and 95 of 100 within `p95 seconds`.
    """
    registry = BankRegistry(tools.db, ChangeWatch(tools.db))
    await registry.load()
    accounts = await credentials.load(tools.db, tools.keyring)
    active = [name for name, each in accounts.items() if each.is_open(Direction.PAY_OUT)]
    rails = await overview(tools.db, active, Deliveries(tools.db, registry).bank_code)
    rows = [_described(rail, bank) for rail in rails for bank in (rail.total, *rail.banks)]
    if not tools.as_json:
        rows = [row | {"success_share": percentage(row["success_share"])} for row in rows]
    tools.print_rows(rows, empty="No rail is configured for payouts.")


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


@command(app)
async def drain(tools: Tools, account: ProviderName) -> None:
    """Stop new payouts through a provider account. Payouts that were already sent continue.

    Payouts with the automatic method use other rails, and unsent payouts move to other rails.
    Payouts with the account's own method are rejected. Takes effect within a second.
    """
    await check_provider(tools, account)
    await _print_drained(tools, account, is_changed=await draining.drain(tools.db, account))


@command(app)
async def undrain(tools: Tools, account: ProviderName) -> None:
    """Allow new payouts through a provider account again. Takes effect within a second."""
    await check_provider(tools, account)
    await _print_drained(tools, account, is_changed=await draining.undrain(tools.db, account))


async def _print_drained(tools: Tools, account: str, *, is_changed: bool) -> None:
    since = (await queries.drained_rails(tools.db)).get(account)
    tools.print_fields({"account": account, "drained_since": since, "changed": is_changed})
