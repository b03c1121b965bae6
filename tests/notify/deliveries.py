"""Creates notifications, and delivers them when a test calls `deliver`."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

from manilla.kit.database.connections import connect
from manilla.kit.jobs import claims
from manilla.kit.jobs.runner import Runner
from manilla.notify import delivery, queries
from manilla.notify.delivery import NotificationDelivery
from manilla.notify.ipn import IpnDestination
from manilla.notify.outbox import DELIVER
from manilla.notify.queries import DeliveryAttempt, DueNotification, Notification
from manilla.payments.checkout import SandboxOutcome
from manilla.services import Services
from tests.notify.receiver import Receiver
from tests.payments.orders import INITIATE, order
from tests.support.client import Merchant


@contextlib.asynccontextmanager
async def delivery_worker(
    services: Services,
) -> AsyncIterator[NotificationDelivery[DueNotification]]:
    async with delivery.open_client(is_public_only=False, connections=64) as client:
        yield NotificationDelivery(IpnDestination(services.db, services.directory), client)


class Deliveries:
    def __init__(
        self,
        services: Services,
        merchant: Merchant,
        receiver: Receiver,
        delivery: NotificationDelivery[DueNotification],
        owner_url: str = "",
    ) -> None:
        self.owner_url = owner_url
        self.services = services
        self.merchant = merchant
        self.receiver = receiver
        self.delivery = delivery

    async def finish_payment(
        self, outcome: SandboxOutcome = SandboxOutcome.PAY, ipn_url: str | None = None
    ) -> str:
        """Creates a sandbox payment with this outcome, and returns its transaction id."""
        body = order(ipn_url=ipn_url or self.receiver.url)
        reply = await self.merchant.post(INITIATE, body)
        assert reply.status == 200, reply.body
        url: str = reply.json["payment_url"]
        trx_id = urlsplit(url).path.rsplit("/", 1)[1]
        await self.services.checkout.pretend(trx_id, outcome)
        return trx_id

    async def deliver(self) -> None:
        db, works = self.services.db, self.delivery.job_handlers()
        claimed, _ = await claims.claim_fairly(db, DELIVER, 100, self.merchant.new.id - 1)
        mine = [job for job in claimed if job.merchant_id == self.merchant.new.id]
        runner = Runner(db, works)
        await asyncio.gather(*(runner._do(job) for job in mine))

    async def skip_to_next_attempt(self, *, hours: int = 1) -> float:
        """Makes the next attempt due, and returns how long the worker would have waited for it.

        `hours`: how long ago the last attempt was, by the clock of the worker that made it.
        """
        # Connect as the schema's owner, because the application's role cannot change attempts.
        connection = await connect(self.owner_url)
        try:
            seconds: float = await connection.fetchval(
                """
            WITH moved AS (
                UPDATE job SET due_at = now() WHERE merchant_id = $1 AND kind = 'notify'),
            aged AS (
                UPDATE delivery_attempt SET at = at - interval '1 hour' * $2
                 WHERE merchant_id = $1)
            SELECT extract(epoch FROM due_at - now())::float8 FROM job
             WHERE merchant_id = $1 AND kind = 'notify'""",
                *(self.merchant.new.id, hours),
            )
        finally:
            await connection.close()
        return seconds

    async def notifications(self, trx_id: str) -> list[Notification]:
        found = await queries.notifications(self.services.db, trx_id=trx_id)
        return found[::-1]

    async def attempts(self, trx_id: str) -> list[DeliveryAttempt]:
        [notification] = await self.notifications(trx_id)
        return await queries.attempts(self.services.db, notification.merchant_id, notification.id)

    async def state(self, trx_id: str) -> str:
        [notification] = await self.notifications(trx_id)
        return notification.state
