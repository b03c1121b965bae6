"""Counters and timings, shared by all processes of a machine and read at one address."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

# prometheus-client chooses its storage when it is imported: files that processes share.
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
    "manilla_requests", "Answered requests of the merchant API.", ["endpoint", "status"]
)
request_seconds = Histogram(
    "manilla_request_seconds",
    "How long merchant API requests took.",
    ["endpoint"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
)

request_lines_dropped = Counter(
    "manilla_request_lines_dropped",
    "Requests that were answered but not kept in the merchants' log of requests.",
)

webhooks = Counter(
    "manilla_webhooks",
    "Webhooks received from providers, by outcome; ignored: about another provider's transaction.",
    ["provider", "outcome"],
)

security_events = Counter(
    "manilla_security_events",
    "Sign-ins, step-ups, second-factor changes, refused permissions and exports, by outcome.",
    ["event", "realm", "outcome"],
)

notifications = Counter(
    "manilla_notifications", "Attempts to deliver a notification, by what became of it.", ["state"]
)
notifications_waiting = Gauge(
    "manilla_notifications_waiting",
    "Notifications that are not delivered yet.",
    multiprocess_mode="mostrecent",
)
notifications_oldest_seconds = Gauge(
    "manilla_notifications_oldest_seconds",
    "How long the oldest of them has waited.",
    multiprocess_mode="mostrecent",
)

reconciled_at = Gauge(
    "manilla_reconciled_at_seconds",
    "When our books were last compared with a provider, in Unix seconds.",
    ["provider"],
    multiprocess_mode="mostrecent",
)
reconciliation_expected = Gauge(
    "manilla_reconciliation_expected",
    "Whether our books must be compared with a provider every hour: 1 or 0.",
    ["provider"],
    multiprocess_mode="mostrecent",
)
reconciliation_answered = Gauge(
    "manilla_reconciliation_answered",
    "Whether the provider said its balance then: 1 or 0.",
    ["provider"],
    multiprocess_mode="mostrecent",
)
clearing_difference = Gauge(
    "manilla_clearing_difference",
    "What a provider was last found to hold beyond what our books explain, in major units.",
    ["provider", "currency"],
    multiprocess_mode="mostrecent",
)
transfers_differ = Gauge(
    "manilla_transfers_differ",
    "Payouts of which a provider last said something else than was decided.",
    ["provider"],
    multiprocess_mode="mostrecent",
)


payouts_decided = Counter(
    "manilla_payouts_decided", "Payouts that were decided, by what happened to them.", ["event"]
)
payouts_open = Gauge(
    "manilla_payouts_open",
    "Payouts of production that are not decided, by whether they were sent.",
    ["provider", "state"],
    multiprocess_mode="mostrecent",
)
payouts_held = Gauge(
    "manilla_payouts_held",
    "Whether payouts and refunds wait instead of being sent: 1 or 0.",
    multiprocess_mode="mostrecent",
)
jobs_due = Gauge(
    "manilla_jobs_due",
    "Jobs whose time has come, and that no worker does yet.",
    ["kind"],
    multiprocess_mode="mostrecent",
)
jobs_oldest_seconds = Gauge(
    "manilla_jobs_oldest_seconds",
    "How long the longest due of them has waited.",
    ["kind"],
    multiprocess_mode="mostrecent",
)
jobs_parked = Gauge(
    "manilla_jobs_parked",
    "Jobs that failed too often, and wait for a person.",
    ["kind"],
    multiprocess_mode="mostrecent",
)
cases_open = Gauge(
    "manilla_cases_open",
    "Cases that wait for a person.",
    ["kind"],
    multiprocess_mode="mostrecent",
)
rail_down = Gauge(
    "manilla_rail_down",
    "Whether a provider is not called in a direction, because it does not answer: 1 or 0.",
    ["provider", "direction"],
    multiprocess_mode="mostrecent",
)
rail_answered_share = Gauge(
    "manilla_rail_answered_share",
    "Share of calls to a provider in the last 15 minutes that it gave a usable answer to.",
    ["provider", "direction"],
    multiprocess_mode="mostrecent",
)
books_broken = Gauge(
    "manilla_books_broken",
    "Promises of the books that the last proof found broken.",
    multiprocess_mode="mostrecent",
)
books_proved_at = Gauge(
    "manilla_books_proved_at_seconds",
    "When the last proof of the books ended, in Unix seconds.",
    multiprocess_mode="mostrecent",
)
database_connections = Gauge(
    "manilla_database_connections",
    "Connections to the database server, of everybody.",
    multiprocess_mode="mostrecent",
)
database_connections_max = Gauge(
    "manilla_database_connections_max",
    "How many connections the database server takes.",
    multiprocess_mode="mostrecent",
)
database_bytes = Gauge(
    "manilla_database_bytes", "Size of the database.", multiprocess_mode="mostrecent"
)
measured_at = Gauge(
    "manilla_measured_at_seconds",
    "When a worker last measured all this, in Unix seconds.",
    multiprocess_mode="mostrecent",
)


def merge_ended_processes() -> None:
    metrics_files.merge_ended(Path(os.environ["PROMETHEUS_MULTIPROC_DIR"]))


def render() -> bytes:
    try:
        return _render()
    except FileNotFoundError:  # a starting process has just merged an ended one's files
        return _render()


def _render() -> bytes:
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(registry)
