"""The job that sends new audit entries to a target: at least once, and in their order."""

import structlog

from manilla.audit import audit
from manilla.audit.stream import ocsf, senders, targets
from manilla.job_kinds import JobKind
from manilla.kit import jobs, outbound
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.http_client.client import HttpClient
from manilla.kit.http_client.errors import HttpError
from manilla.kit.jobs import Job, NextRun, Work

log = structlog.get_logger(__name__)

BATCH = 100
POLL_SECONDS = 5
RETRY_SECONDS_MAX = 300


class AuditStreamTasks:
    def __init__(self, db: Database, keyring: Keyring, client: HttpClient, instance: str) -> None:
        self._db = db
        self._keyring = keyring
        self._client = client
        self._instance = instance

    def job_handlers(self) -> dict[str, Work]:
        return {JobKind.AUDIT_STREAM: Work(self.run, concurrency=4)}

    async def schedule(self) -> None:
        """Creates the job of a target that has none."""
        names = [target.name for target in await targets.list_all(self._db)]
        if names:
            await jobs.put_missing(self._db, JobKind.AUDIT_STREAM, names)

    async def run(self, job: Job) -> NextRun:
        target = await targets.find(self._db, job.subject)
        if target is None:
            return None
        entries = await audit.list_after(self._db, target.cursor, BATCH)
        if not entries:
            return POLL_SECONDS
        events = [ocsf.event(entry, self._instance) for entry in entries]
        authorization = await targets.authorization(self._db, self._keyring, target)
        try:
            await senders.send(self._client, target.url, authorization, events)
        except (HttpError, *senders.ERRORS) as error:
            return await self._retry(target, outbound.describe(error))
        # If the worker stops before this statement, the next one sends the batch again.
        await targets.advance(self._db, target, entries[-1].id)
        return 0 if len(entries) == BATCH else POLL_SECONDS

    async def _retry(self, target: targets.AuditTarget, error: str) -> float:
        log.warning("audit_target_failed", target=target.name, error=error)
        await targets.record_failure(self._db, target, error)
        return float(min(POLL_SECONDS * 2 ** min(target.failures, 10), RETRY_SECONDS_MAX))
