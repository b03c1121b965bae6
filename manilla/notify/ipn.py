"""Delivers notifications to a transaction's `ipn_url`."""

from collections.abc import Sequence

from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.jobs import Job
from manilla.merchants.directory import Directory
from manilla.notify import queries, signing
from manilla.notify.outbox import DELIVER
from manilla.notify.queries import DeliveryResult, DueNotification, Notification


class IpnDestination:
    kind: str = DELIVER

    def __init__(self, db: Database, directory: Directory) -> None:
        self._db = db
        self._directory = directory

    async def due(self, jobs: Sequence[Job]) -> list[DueNotification | None]:
        return await queries.due(self._db, jobs)

    def retry_seconds(self, _due: DueNotification) -> Sequence[float]:
        return queries.RETRY_SECONDS

    async def headers(self, due: DueNotification, now: int) -> dict[str, str]:
        return await signed_headers(self._directory, due, now)

    async def record(self, results: Sequence[DeliveryResult]) -> list[bool]:
        return await queries.record(self._db, results)


async def signed_headers(
    directory: Directory, notification: DueNotification | Notification, now: int
) -> dict[str, str]:
    """Signs a message with the merchant's newest secret, even if an older secret is still valid."""
    merchant = await directory.of(Environment(notification.environment), notification.merchant_id)
    return signing.headers(
        merchant.live_credentials()[0].secret,
        notification_id=notification.id,
        environment=notification.environment,
        body=notification.body,
        now=now,
    )
