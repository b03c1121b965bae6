"""Counters and timings, shared by all processes of a machine and read at one address."""

import atexit
import os
import shutil
import tempfile

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


def render() -> bytes:
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(registry)
