"""The worker process, which runs due jobs and periodic tasks."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial

import msgspec
import structlog

from manilla import instance_metrics, metrics
from manilla.approvals import queries as approvals
from manilla.audit.stream.tasks import AuditStreamTasks
from manilla.bulk.names import NameTasks
from manilla.bulk.paying import BulkPayoutTasks
from manilla.compliance import documents
from manilla.customers.statements import query_missing
from manilla.customers.tasks import AccountTasks
from manilla.disputes.tasks import POLL_SECONDS, DisputeTasks
from manilla.invoices import files as invoice_files
from manilla.invoices.tasks import LEDGER_SECONDS, SCHEDULE_SECONDS, InvoiceTasks
from manilla.kit import ratelimit, time_limits, tracing
from manilla.kit.database.connections import Database
from manilla.kit.errors import Unavailable
from manilla.kit.jobs import Job, NextRun, Work
from manilla.kit.jobs.runner import Runner
from manilla.kit.tracing import SpanKind
from manilla.ledger import clearing, idempotency
from manilla.lookup import traces
from manilla.mail import queries as mail
from manilla.mail.delivery import MailDelivery
from manilla.mail.kinds import MailKind
from manilla.margin import totals as margin
from manilla.merchants import api_keys
from manilla.merchants import queries as merchants
from manilla.merchants.requests import log as request_log
from manilla.notify import delivery, retention
from manilla.notify import queries as notify
from manilla.notify.delivery import NotificationDelivery
from manilla.notify.endpoints import store as endpoint_store
from manilla.notify.endpoints.deliveries import ResendTasks
from manilla.notify.endpoints.destination import EndpointDestination
from manilla.notify.ipn import IpnDestination
from manilla.payments.tasks import PaymentTasks
from manilla.payouts.tasks import PayoutTasks
from manilla.people import queries as people
from manilla.people.tasks import ResetTasks
from manilla.proofs import anchors, chain, proofs
from manilla.providers import inbox
from manilla.providers import queries as providers
from manilla.reconciliation.balance_tasks import BalanceTasks
from manilla.reconciliation.tasks import StatementTasks
from manilla.refunds.tasks import RefundTasks
from manilla.routing import deliveries
from manilla.services import Services
from manilla.settings import Settings
from manilla.settlements import statement
from manilla.splits.tasks import SplitTasks
from manilla.sql import months
from manilla.wiring import open_services

log = structlog.get_logger(__name__)

CONNECTIONS = 10
KEEP_LINKS = timedelta(days=30)
PROOF_SECONDS = 3600
STATEMENT_SECONDS = 120  # SQL timeout for matching an imported provider statement with the ledger


class PeriodicTask(msgspec.Struct, frozen=True):
    name: str
    every_seconds: float
    run: Callable[[], Awaitable[None]]


def periodic_tasks(services: Services) -> list[PeriodicTask]:
    db, kinds = services.db, job_handlers(services).keys()
    # These tasks are skipped in development mode: simulated balances do not match the ledger.
    reconciliation = _reconciliation(services)
    production = [
        PeriodicTask("schedule_reconciliation", 600, reconciliation.schedule),
        PeriodicTask("schedule_statements", 600, _statements(services).schedule),
        PeriodicTask("mail_heads", 600, lambda: anchors.mail_heads(db)),
    ]
    return [
        *([] if services.is_development else production),
        PeriodicTask("poll_disputes", POLL_SECONDS, _disputes(services).schedule),
        PeriodicTask("schedule_invoices", SCHEDULE_SECONDS, _invoices(services).schedule),
        PeriodicTask("query_receipts", 600, lambda: query_missing(db, services.rails)),
        PeriodicTask("forget_rate_windows", 60, lambda: ratelimit.delete_ended_windows(db)),
        PeriodicTask("forget_answers", 60, lambda: idempotency.delete_old_answers(db)),
        PeriodicTask("forget_credentials", 3600, lambda: merchants.delete_expired_credentials(db)),
        PeriodicTask("forget_api_keys", 3600, lambda: api_keys.delete_expired(db)),
        PeriodicTask("forget_approvals", 3600, lambda: approvals.delete_expired(db)),
        PeriodicTask("forget_requests", 600, lambda: _forget_requests(services)),
        PeriodicTask("create_months", 3600, lambda: months.create(db)),
        PeriodicTask("forget_sessions", 600, lambda: people.delete_ended(db, KEEP_LINKS)),
        PeriodicTask("forget_mails", 600, lambda: mail.delete_old(db)),
        PeriodicTask("forget_webhooks", 3600, lambda: _forget_webhooks(services)),
        PeriodicTask("forget_documents", 3600, lambda: _forget_documents(services)),
        PeriodicTask("forget_rail_figures", 3600, lambda: providers.delete_old_figures(db)),
        PeriodicTask("forget_deliveries", 3600, lambda: deliveries.delete_old(db)),
        PeriodicTask("measure_backlog", 5, lambda: _measure_backlog(services)),
        PeriodicTask("measure", 15, lambda: instance_metrics.measure(db, kinds)),
        PeriodicTask("forget_notifications", 3600, lambda: _forget_notifications(services)),
        PeriodicTask(
            "measure_standby", 5, lambda: instance_metrics.measure_standby(services.reads)
        ),
        PeriodicTask("probe_rails", 2, services.rails.probe),
        PeriodicTask("learn_banks", 300, services.banks.refresh),
        PeriodicTask("schedule_audit_stream", 60, _audit_stream(services).schedule),
        PeriodicTask("prove_books", 2, lambda: _prove_books(services)),
        PeriodicTask("chain_postings", 10, lambda: chain.extend(db)),
        PeriodicTask("total_clearing", 10, lambda: clearing.add_final_postings(db)),
        PeriodicTask("total_margin", 60, lambda: margin.add_final_postings(db)),
    ]


async def _forget_requests(services: Services) -> None:
    await request_log.delete_old(services.db, services.platform.now.request_log_retention_days)


async def _forget_notifications(services: Services) -> None:
    settings = services.platform.now
    age = timedelta(days=settings.delivery_retention_days)
    await notify.delete_old_attempts(services.db, age)
    await endpoint_store.delete_old(services.db, age)
    days = max(settings.notification_retention_days, settings.delivery_retention_days)
    await retention.delete_old(services.db, timedelta(days=days))


async def _forget_webhooks(services: Services) -> None:
    await inbox.delete_old(services.db, services.platform.now.webhook_retention_days)


async def _forget_documents(services: Services) -> None:
    await documents.delete_old(services.db, services.platform.now.document_retention_days)


async def _prove_books(services: Services) -> None:
    """Checks the ledger when it is due, in only one worker, with a long SQL timeout."""
    if not await proofs.is_mine(services.db):
        return
    async with services.patient(PROOF_SECONDS) as db:
        await proofs.check_invariants(db)


async def _measure_backlog(services: Services) -> None:
    backlog = await notify.backlog(services.db)
    metrics.notifications_waiting.set(backlog.waiting)
    metrics.notifications_oldest_seconds.set(backlog.oldest_seconds)


def job_handlers(services: Services) -> dict[str, Work]:
    """Returns the handlers of all job types except notification deliveries."""
    return {
        **PaymentTasks(services.db, services.charges).job_handlers(),
        **RefundTasks(services.db, services.rails, services.claims).job_handlers(),
        **_disputes(services).job_handlers(),
        **_invoices(services).job_handlers(),
        **AccountTasks(
            services.db, services.keyring, services.rails, services.receiving
        ).job_handlers(),
        **services.way_charges.job_handlers(),
        **services.mandates.job_handlers(),
        **SplitTasks(services.db).job_handlers(),
        **PayoutTasks(
            services.db,
            services.platform,
            services.rails,
            services.failover,
            services.deliveries,
            services.claims,
            services.delivered,
            services.base_url,
        ).job_handlers(),
        **ResetTasks(services.db, services.keyring).job_handlers(),
        **MailDelivery(
            services.db,
            services.letters,
            services.mail_transport,
            is_development=services.is_development,
            attach={
                MailKind.SETTLEMENT_SENT: partial(statement.attach, services.db),
                MailKind.INVOICE_ISSUED: partial(invoice_files.attach, services.db),
            },
        ).job_handlers(),
        **_reconciliation(services).job_handlers(),
        **_statements(services).job_handlers(),
        **BulkPayoutTasks(
            services.db, services.directory, services.methods, services.payouts
        ).job_handlers(),
        **NameTasks(
            services.db, services.directory, services.methods, services.previews
        ).job_handlers(),
        **services.settling.job_handlers(),
        **ResendTasks(services.db).job_handlers(),
        **_audit_stream(services).job_handlers(),
    }


def _audit_stream(services: Services) -> AuditStreamTasks:
    return AuditStreamTasks(
        services.db, services.keyring, services.operator_client, services.base_url
    )


def _disputes(services: Services) -> DisputeTasks:
    return DisputeTasks(services.db, services.keyring, services.platform, services.rails)


def _invoices(services: Services) -> InvoiceTasks:
    return InvoiceTasks(services.db, services.platform, lambda: services.patient(LEDGER_SECONDS))


def _reconciliation(services: Services) -> BalanceTasks:

    return BalanceTasks(
        services.db,
        services.platform,
        services.rails,
        lambda: services.patient(time_limits.current.reconcile_statement_seconds),
    )


def _statements(services: Services) -> StatementTasks:
    return StatementTasks(services.db, services.rails, lambda: services.patient(STATEMENT_SECONDS))


async def work(settings: Settings) -> None:
    async with open_services(settings, name="manilla worker", connections=CONNECTIONS) as services:
        await run(services, stop_on_signal())


def stop_on_signal() -> asyncio.Event:
    """Returns an event that is set when the process receives a stop signal."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


async def run(
    services: Services, stop: asyncio.Event, adapt: Callable[[Work], Work] = lambda work: work
) -> None:
    """Runs jobs and periodic tasks until `stop` is set. `adapt` can wrap the jobs' handlers."""
    tasks = [asyncio.create_task(_repeat(task)) for task in periodic_tasks(services)]
    async with delivery.open_client(
        is_public_only=not services.is_development,
        connections=2 * delivery.CONCURRENCY,  # half for `ipn_url`, half for webhook endpoints
    ) as client:
        ipn = IpnDestination(services.db, services.directory)
        endpoints = EndpointDestination(services.db, services.keyring)
        kinds = {
            **job_handlers(services),
            **NotificationDelivery(ipn, client).job_handlers(),
            **NotificationDelivery(endpoints, client).job_handlers(),
        }
        if tracing.is_on():
            kinds = {kind: _traced(services.db, work) for kind, work in kinds.items()}
        await Runner(services.db, {kind: adapt(work) for kind, work in kinds.items()}).run(stop)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _traced(db: Database, work: Work) -> Work:
    """Runs each job in a span of its transaction's trace."""

    async def handle(job: Job) -> NextRun:
        parent = await traces.find_parent(db, job)
        with tracing.begin(f"job {job.kind}", parent, SpanKind.CONSUMER) as span:
            assert span is not None
            # The subject of other jobs can be an email address, which no span may contain.
            if (trx_id := traces.find_transaction(job)) is not None:
                span.set_attribute("trx_id", trx_id)
            return await work.handler(job)

    return msgspec.structs.replace(work, handler=handle)


async def _repeat(task: PeriodicTask) -> None:
    """Runs a task periodically. A failure is logged and does not stop the worker."""
    while True:
        try:
            await task.run()
        except Unavailable as away:
            log.warning("task_postponed", task=task.name, **away.facts)
        except Exception:
            log.exception("task_failed", task=task.name)
        await asyncio.sleep(task.every_seconds)
