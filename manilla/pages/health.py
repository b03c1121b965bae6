"""Health checks and metrics."""

import ipaddress

from manilla.kit import prometheus
from manilla.kit.db import Database
from manilla.kit.errors import Unavailable
from manilla.kit.server.draining import Drain
from manilla.web.serving.request import WebRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound, UrlHandler


def handlers(db: Database, drain: Drain) -> list[UrlHandler]:
    async def readyz(_request: WebRequest) -> PageResponse:
        """Readiness check: whether the database responds and the process is not shutting down."""
        if drain.is_on:
            return PageResponse.json({"status": "stopping"}, 503)
        try:
            await db.value("SELECT 1")
        except Unavailable as unavailable:
            return PageResponse.json(
                {"status": "unavailable", "database": "away"},
                unavailable.status,
                headers={"Retry-After": str(unavailable.retry_after_seconds)},
            )
        return PageResponse.json({"status": "ready", "database": "ok"})

    return [
        UrlHandler("GET", "/healthz", _healthz),
        UrlHandler("GET", "/readyz", readyz),
        UrlHandler("GET", "/metrics", _metrics),
    ]


async def _healthz(_request: WebRequest) -> PageResponse:
    """Liveness check: responds if the process runs, and checks nothing else."""
    return PageResponse.json({"status": "ok"})


async def _metrics(request: WebRequest) -> PageResponse:
    """Serves metrics to scrapers on the local network. Requests through a proxy get 404."""
    if not _is_local(request):
        raise PageNotFound
    return PageResponse(prometheus.render(), headers={"Content-Type": prometheus.CONTENT_TYPE})


# A request with any of these headers came through a proxy, so its sender is unknown.
BY_PROXY = ("x-forwarded-for", "forwarded", "x-real-ip", "via")


def _is_local(request: WebRequest) -> bool:
    if any(name in request.headers for name in BY_PROXY):
        return False
    try:
        address = ipaddress.ip_address(request.peer)
    except ValueError:
        return False
    return address.is_loopback or address.is_private
