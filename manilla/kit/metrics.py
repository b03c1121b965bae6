"""Prometheus metrics, shared by all processes on a machine and served at one URL."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

# prometheus-client selects its storage on import. With this variable set, it uses files that
# processes share.
if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = tempfile.mkdtemp(prefix="manilla-metrics-")
    atexit.register(shutil.rmtree, os.environ["PROMETHEUS_MULTIPROC_DIR"], ignore_errors=True)

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    multiprocess,
)

from manilla.kit import metrics_files

CONTENT_TYPE = CONTENT_TYPE_LATEST

requests = Counter(
    "manilla_requests", "Merchant API requests that were answered.", ["endpoint", "status"]
)
request_seconds = Histogram(
    "manilla_request_seconds",
    "Duration of merchant API requests.",
    ["endpoint"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
)

request_lines_dropped = Counter(
    "manilla_request_lines_dropped",
    "Requests that were answered but not written to the merchants' request log.",
)

webhooks = Counter(
    "manilla_webhooks",
    "Webhooks received from providers, by outcome; ignored: for another provider's transaction.",
    ["provider", "outcome"],
)

security_events = Counter(
    "manilla_security_events",
    "Sign-ins, step-ups, second-factor changes, denied permissions and exports, by outcome.",
    ["event", "realm", "outcome"],
)

notifications = Counter(
    "manilla_notifications", "Attempts to deliver a notification, by result.", ["state"]
)
notifications_waiting = Gauge(
    "manilla_notifications_waiting",
    "Notifications that have not been delivered yet.",
    multiprocess_mode="mostrecent",
)
notifications_oldest_seconds = Gauge(
    "manilla_notifications_oldest_seconds",
    "How long the oldest undelivered notification has waited.",
    multiprocess_mode="mostrecent",
)

reconciled_at = Gauge(
    "manilla_reconciled_at_seconds",
    "When our ledger was last compared with a provider, in Unix seconds.",
    ["provider"],
    multiprocess_mode="mostrecent",
)
reconciliation_expected = Gauge(
    "manilla_reconciliation_expected",
    "Whether our ledger must be compared with a provider every hour: 1 or 0.",
    ["provider"],
    multiprocess_mode="mostrecent",
)
reconciliation_answered = Gauge(
    "manilla_reconciliation_answered",
    "Whether the provider reported its balance in the last comparison: 1 or 0.",
    ["provider"],
    multiprocess_mode="mostrecent",
)
clearing_difference = Gauge(
    "manilla_clearing_difference",
    "Unexplained difference between a provider's balance and our ledger, in major units.",
    ["provider", "currency"],
    multiprocess_mode="mostrecent",
)
transfers_differ = Gauge(
    "manilla_transfers_differ",
    "Payouts whose status at the provider differs from ours.",
    ["provider"],
    multiprocess_mode="mostrecent",
)


payouts_decided = Counter(
    "manilla_payouts_decided", "Changes of payouts to a final status, by event.", ["event"]
)
payouts_open = Gauge(
    "manilla_payouts_open",
    "Production payouts without a final status, by whether they were sent.",
    ["provider", "state"],
    multiprocess_mode="mostrecent",
)
payouts_held = Gauge(
    "manilla_payouts_held",
    "Whether payouts and refunds are on hold: 1 or 0.",
    multiprocess_mode="mostrecent",
)
jobs_due = Gauge(
    "manilla_jobs_due",
    "Jobs that are due and not yet claimed by any worker.",
    ["kind"],
    multiprocess_mode="mostrecent",
)
jobs_oldest_seconds = Gauge(
    "manilla_jobs_oldest_seconds",
    "How long the oldest due job has waited.",
    ["kind"],
    multiprocess_mode="mostrecent",
)
jobs_parked = Gauge(
    "manilla_jobs_parked",
    "Jobs that have used all their attempts and wait for a person.",
    ["kind"],
    multiprocess_mode="mostrecent",
)
cases_open = Gauge(
    "manilla_cases_open",
    "Cases that wait for an administrator.",
    ["kind"],
    multiprocess_mode="mostrecent",
)
rail_down = Gauge(
    "manilla_rail_down",
    "Whether the circuit breaker stops calls to a provider in a direction: 1 or 0.",
    ["provider", "direction"],
    multiprocess_mode="mostrecent",
)
rail_answered_share = Gauge(
    "manilla_rail_answered_share",
    "Share of calls to a provider in the last 15 minutes that got a usable response.",
    ["provider", "direction"],
    multiprocess_mode="mostrecent",
)
books_broken = Gauge(
    "manilla_books_broken",
    "Ledger invariants that the last check found violated.",
    multiprocess_mode="mostrecent",
)
books_proved_at = Gauge(
    "manilla_books_proved_at_seconds",
    "When the last check of the ledger invariants ended, in Unix seconds.",
    multiprocess_mode="mostrecent",
)
database_connections = Gauge(
    "manilla_database_connections",
    "Connections to the database server, from all clients.",
    multiprocess_mode="mostrecent",
)
database_connections_max = Gauge(
    "manilla_database_connections_max",
    "Maximum number of connections of the database server.",
    multiprocess_mode="mostrecent",
)
database_bytes = Gauge(
    "manilla_database_bytes", "Size of the database.", multiprocess_mode="mostrecent"
)
measured_at = Gauge(
    "manilla_measured_at_seconds",
    "When a worker last updated these gauges, in Unix seconds.",
    multiprocess_mode="mostrecent",
)


def merge_ended_processes() -> None:
    metrics_files.merge_ended(Path(os.environ["PROMETHEUS_MULTIPROC_DIR"]))


def render() -> bytes:
    try:
        return _render()
    except FileNotFoundError:  # a starting process has just merged the files of an ended one
        return _render()


def _render() -> bytes:
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(registry)
