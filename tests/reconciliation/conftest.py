import pytest

from manilla.kit.database.connections import Database
from tests.faults.conftest import payer, sandbox_payer, shop, simulated_kinds, simulator
from tests.reconciliation.ledger_samples import Account

__all__ = ["payer", "sandbox_payer", "shop", "simulated_kinds", "simulator"]
TABLES = ("statement_line", "statement_day", "clearing_movement", "unmatched_transaction")


@pytest.fixture
def account(db: Database, owner: Database) -> Account:
    return Account(db, owner)


@pytest.fixture
async def _no_statements(owner: Database) -> None:
    for table in TABLES:
        await owner.execute(f"DELETE FROM {table}")
    # Delete the old ids: unlike Paystack, a restarted simulator uses the same ids again.
    for table in ("charge", "payout", "refund"):
        await owner.execute(
            f"UPDATE {table} SET provider_reference = NULL WHERE provider = 'paystack'"
        )
    await owner.execute("DELETE FROM operator_case WHERE kind = 'statement_differs'")
