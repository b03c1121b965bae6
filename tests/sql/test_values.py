"""Migrations derive values from stored texts, and rows from the previous version are completed."""

import json
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from manilla.kit.embedded.postgres import Cluster
from manilla.settings import Settings
from manilla.sql import migrate, runner
from tests.support.databases import database


@pytest.fixture
async def on(cluster: Cluster, settings: Settings) -> Settings:
    return await database(cluster, settings, "values")


@pytest.fixture
async def owner(on: Settings) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(on.migration_url)
    yield connection
    await connection.close()


# Each row has the previous version's event, status and message, and the expected event type.
OLD_NOTIFICATIONS = [
    ("payment", "completed", "", "payment.success"),
    ("payment.success", "completed", "", "payment.success"),
    ("payment", "pending", "", "payment.pending"),
    ("payment", "canceled", "", "payment.failed"),
    ("payout", "failed", "Payout Failed", "payout.failed"),
    ("payout", "failed", "Payout Reversed", "payout.reversed"),
    ("refund", "completed", "Payment Refunded", "refund.completed"),
    ("test.payout", "failed", "Payout Reversed", None),
]


async def test_notifications_of_the_previous_version_get_their_type(
    on: Settings, owner: Any
) -> None:
    """Tests notifications written before the migration, and by older processes during it."""
    await runner.run(on.migration_url, last="0060")
    await _notify(owner, prefix="a")
    await migrate.upgrade(on.migration_url, on.database_url)
    await _notify(owner, prefix="b")
    types = [row["type"] for row in await owner.fetch("SELECT type FROM notification ORDER BY id")]
    assert types == [expected for *_, expected in OLD_NOTIFICATIONS] * 2


async def _notify(owner: Any, *, prefix: str) -> None:
    for number, (event, status, message, _) in enumerate(OLD_NOTIFICATIONS):
        await owner.execute(
            "INSERT INTO notification (merchant_id, id, environment, trx_id, event, status, url,"
            " body) VALUES (1, $1, 'sandbox', 'TXN1', $2, $3, '', $4)",
            *(f"{prefix}{number}", event, status),
            f'{{"message":"{message}"}}'.encode(),
        )


NEXT = "Chose Provider B: next after Provider A, which did not create a charge."
FEE = (
    "It saw Card. Chose Provider A: the lowest fee, ₦10.50; then Provider B: a higher fee, ₦12.00."
)
# Each row has an event, its details, and the facts that merchants may read.
OLD_EVENTS = [
    ("moved_to_another_rail", "a: rejected the transfer: no. Sent by b.", {"ended_as": "rejected"}),
    ("moved_to_another_rail", "Moved to b, which has it.", {"ended_as": "elsewhere"}),
    ("moved_to_another_rail", "a: never received it.", {"ended_as": "not_received"}),
    ("charge_declined", "charge T-1: x. Checkout says: Try again.", {"shown": "Try again."}),
    ("gateway_chosen", FEE, {"gateway": "Provider A", "reason": "lowest_fee"}),
    (
        "gateway_chosen",
        NEXT,
        {"gateway": "Provider B", "reason": "next", "after": "Provider A"},
    ),
    (
        "gateway_chosen",
        "Chose Provider A: first in the merchant's order; then B: later.",
        {"gateway": "Provider A", "reason": "first_of_merchant"},
    ),
    ("gateway_chosen", "Chose Provider A: it is nearest.", {"gateway": "Provider A"}),
    (
        "refund_started",
        "TXN2, NGN 5.00: wrong size: blue",
        {"refund": "TXN2", "amount": "NGN 5.00", "reason": "wrong size: blue"},
    ),
    ("refund_failed", "TXN2, NGN 5.00: secret", {"refund": "TXN2", "amount": "NGN 5.00"}),
    ("delivered", "by Provider A", {}),
]


async def test_events_of_the_previous_version_get_their_facts(on: Settings, owner: Any) -> None:
    await runner.run(on.migration_url, last="0062")
    for number, (event, detail, _) in enumerate(OLD_EVENTS):
        await owner.execute(
            "INSERT INTO timeline (merchant_id, trx_id, number, event, from_status, to_status,"
            " detail) VALUES (1, 'TXN1', $1, $2, 'pending', 'pending', $3)",
            *(number, event, detail),
        )
    await runner.run(on.migration_url)
    with pytest.raises(asyncpg.RaiseError, match="append-only"):
        await owner.execute("UPDATE timeline SET facts = '{}'")
    rows = await owner.fetch("SELECT facts FROM timeline ORDER BY number")
    assert [json.loads(row["facts"]) for row in rows] == [facts for *_, facts in OLD_EVENTS]
