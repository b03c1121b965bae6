"""Health checks and metrics."""

import ipaddress
from collections.abc import Callable

from manilla.kit import prometheus
from manilla.kit.database.connections import Database
from manilla.kit.errors import Unavailable
from manilla.kit.server.draining import Drain
from manilla.web.serving.request import WebRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound, UrlHandler

# If a commit waits this long for a standby's confirmation, the standby is not responding.
CONFIRM_SECONDS = 3

_WRITES = """
    SELECT CASE WHEN current_setting('transaction_read_only') = 'on' THEN 'read-only'
                WHEN EXISTS (SELECT FROM pg_stat_activity
                              WHERE wait_event = 'SyncRep'
                                AND query_start < now() - make_interval(secs => $1))
                THEN 'not confirmed' ELSE 'ok' END"""


def handlers(db: Database, drain: Drain) -> list[UrlHandler]:
    async def readyz(_request: WebRequest) -> PageResponse:
        """Readiness check: succeeds if reads and writes work and the process is not stopping."""
        return await _ready(lambda writes: writes == "ok")

    async def readyz_reads(_request: WebRequest) -> PageResponse:
        """Readiness check for reads: succeeds even if writes do not work."""
        return await _ready(lambda _writes: True)

    async def _ready(is_ready: Callable[[str], bool]) -> PageResponse:
        if drain.is_on:
            return PageResponse.json({"status": "stopping"}, 503)
        try:
            writes: str = await db.value(_WRITES, CONFIRM_SECONDS)
        except Unavailable:
            return _unready("unavailable", database="away")
        if not is_ready(writes):
            return _unready("degraded", database="ok", writes=writes)
        return PageResponse.json({"status": "ready", "database": "ok", "writes": writes})

    return [
        UrlHandler("GET", "/healthz", _healthz),
        UrlHandler("GET", "/readyz", readyz),
        UrlHandler("GET", "/readyz/reads", readyz_reads),
        UrlHandler("GET", "/metrics", _metrics),
    ]


def _unready(status: str, **facts: str) -> PageResponse:
    retry = {"Retry-After": "1"}
    return PageResponse.json({"status": status, **facts}, Unavailable.status, headers=retry)


async def _healthz(_request: WebRequest) -> PageResponse:
    """Liveness check: succeeds if the process runs, and checks nothing else."""
    return PageResponse.json({"status": "ok"})


async def _metrics(request: WebRequest) -> PageResponse:
    """Serves metrics to scrapers on the local network. Requests through a proxy get 404."""
    if not _is_local(request):
        raise PageNotFound
    return PageResponse(prometheus.render(), headers={"Content-Type": prometheus.CONTENT_TYPE})


# A request with one of these headers came through a proxy, so its sender may not be local.
BY_PROXY = ("x-forwarded-for", "forwarded", "x-real-ip", "via")


def _is_local(request: WebRequest) -> bool:
    if any(name in request.headers for name in BY_PROXY):
        return False
    try:
        address = ipaddress.ip_address(request.peer)
    except ValueError:
        return False
    return address.is_loopback or address.is_private
