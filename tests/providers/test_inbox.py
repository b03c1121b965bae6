"""Stored webhooks: the status queries that they schedule, and the statuses that they report."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from manilla.kit.database.connections import Database
from manilla.kit.money import Money
from manilla.providers import claims, inbox
from manilla.providers.claims import CONFIRMATION_SECONDS, Claimed
from manilla.providers.inbox import QUERY_INTERVAL_SECONDS, StoredWebhook, WebhookInbox
from manilla.providers.port import Claim, TransferStatus, WebhookEvent, WebhookSubject
from manilla.services import Services

NOW = datetime.now(UTC)
PAID = Money("NGN", 1015_50)


@pytest.fixture
async def reference(owner: Database) -> AsyncIterator[str]:
    """Returns a reference that is not ours, and deletes all data about it after the test."""
    reference = f"unknown{secrets.token_hex(8)}"
    yield reference
    await owner.execute("DELETE FROM job WHERE subject = $1", reference)
    await owner.execute("DELETE FROM webhook WHERE reference = $1", reference)


def event(reference: str, amount: str = "1015.50") -> WebhookEvent:
    claim = Claim(Decimal(amount), "NGN")
    return WebhookEvent(WebhookSubject.TRANSFER, reference, claim, TransferStatus.DELIVERED)


async def due_in(db: Database, reference: str) -> float:
    """Returns how many seconds after the first webhook the next status query is due."""
    found: float = await db.value(
        """
        SELECT extract(epoch FROM max(query_due_at) - min(received_at))::float8
          FROM webhook WHERE reference = $1""",
        reference,
    )
    return found


@pytest.fixture
def webhooks(services: Services) -> WebhookInbox:
    return services.inbox


async def test_every_delivery_is_counted_and_schedules_a_query(
    db: Database, webhooks: WebhookInbox, reference: str
) -> None:
    for number in (1, 2):
        stored = await webhooks.store("providera", event(reference), b"the same bytes")
        assert stored == StoredWebhook(is_ignored=False, deliveries=number)
    jobs = await db.records(
        "SELECT kind, fence, due_at <= now() AS due FROM job WHERE subject = $1", reference
    )
    assert [(job["kind"], job["fence"], job["due"]) for job in jobs] == [("transfer", 1, True)]


async def test_concurrent_webhooks_are_stored_as_if_each_had_arrived_alone(
    db: Database, webhooks: WebhookInbox, reference: str
) -> None:
    """Two webhooks are identical, one more reports the same transfer, and one reports a charge."""
    charge = WebhookEvent(WebhookSubject.CHARGE, reference)
    stored = await asyncio.gather(
        webhooks.store("providera", event(reference), b"same"),
        webhooks.store("providera", event(reference), b"same"),
        webhooks.store("providera", event(reference), b"other"),
        webhooks.store("providera", charge, b"charge"),
    )
    assert [each.deliveries for each in stored] == [1, 2, 1, 1]
    jobs = await db.records("SELECT kind, fence FROM job WHERE subject = $1", reference)
    assert {(job["kind"], job["fence"]) for job in jobs} == {("transfer", 2), ("charge", 0)}


async def test_queries_about_one_transaction_are_an_interval_apart(
    db: Database, webhooks: WebhookInbox, reference: str
) -> None:
    await webhooks.store("providera", event(reference), b"first")
    assert await due_in(db, reference) == 0
    for raw in (b"second", b"third"):  # both wait for the same query
        await webhooks.store("providera", event(reference), raw)
        assert await due_in(db, reference) >= QUERY_INTERVAL_SECONDS


async def test_a_webhook_during_a_query_causes_another_one(
    db: Database, webhooks: WebhookInbox, reference: str
) -> None:
    await webhooks.store("providera", event(reference), b"first")
    await db.execute(
        """
        UPDATE job SET due_at = now() + interval '1 day', leased_until = now() + interval '1 day'
         WHERE subject = $1""",
        reference,
    )
    await webhooks.store("providera", event(reference), b"second")
    job = await db.record(
        "SELECT fence, due_at < now() + interval '1 hour' AS soon FROM job WHERE subject = $1",
        reference,
    )
    assert job is not None
    assert (job["fence"], job["soon"]) == (1, True)


async def test_old_webhooks_are_deleted_unless_a_job_is_about_them(
    db: Database, owner: Database, webhooks: WebhookInbox, reference: str
) -> None:
    await webhooks.store("providera", event(reference), b"raw")
    await owner.execute(
        """
        UPDATE webhook SET received_at = now() - interval '1000 days',
                           last_received_at = now() - interval '999 days' WHERE reference = $1""",
        reference,
    )

    async def is_stored() -> bool:
        return bool(await db.value("SELECT count(*) FROM webhook WHERE reference = $1", reference))

    await inbox.delete_old(db, 900)
    assert await is_stored()
    await owner.execute("DELETE FROM job WHERE subject = $1", reference)
    await inbox.delete_old(db, 1000)
    assert await is_stored()
    await inbox.delete_old(db, 900)
    assert not await is_stored()


async def test_claims_of_another_provider_or_kind_do_not_count(
    db: Database, webhooks: WebhookInbox, reference: str
) -> None:
    await webhooks.store("providera", event(reference, "7"), b"a")
    await webhooks.store("providerb", event(reference, "8"), b"b")
    [claimed] = await claims.claims_of(db, WebhookSubject.TRANSFER, 0, reference, "providera")
    assert (claimed.amount, claimed.currency, claimed.status) == (Decimal(7), "NGN", "delivered")
    assert await claims.claims_of(db, WebhookSubject.CHARGE, 0, reference, "providera") == []


@pytest.mark.parametrize(
    ("amount", "currency", "agrees"),
    [
        (Decimal("1015.50"), "NGN", True),
        (Decimal("1015.5"), None, True),
        (None, "NGN", True),
        (None, None, True),
        (Decimal("1015.51"), "NGN", False),
        (Decimal("1015.50"), "USD", False),
        (None, "USD", False),
        (Decimal("NaN"), None, False),
    ],
)
def test_a_claim_agrees_only_with_the_same_amount_and_currency(
    amount: Decimal | None, currency: str | None, agrees: bool
) -> None:
    claim = Claimed(amount, currency, None, 0, NOW)
    assert claim.agrees_with(PAID) is agrees
    assert claims.disagreeing([claim], PAID) == ([] if agrees else [claim])


@pytest.mark.parametrize(
    ("ages", "wait"),
    [([], 0), ([5], 15), ([5, 2, 9], 18), ([20], 0), ([30], 0), ([30, 19], 1)],
)
def test_an_answer_waits_after_the_latest_claim_that_disagrees(
    ages: list[float], wait: float
) -> None:
    assert CONFIRMATION_SECONDS == 20
    found = [Claimed(Decimal(1), "NGN", None, age, NOW) for age in ages]
    assert claims.confirmation_wait_seconds(found) == wait
