"""Health checks and metrics."""

import ipaddress
from typing import Any

from litestar import MediaType, Request, Response, get
from litestar.exceptions import NotFoundException
from litestar.handlers import HTTPRouteHandler

from manilla.kit import prometheus
from manilla.kit.db import Database
from manilla.kit.errors import Unavailable
from manilla.kit.server.draining import Drain

Answer = Response[dict[str, str]]


@get("/healthz")
async def healthz() -> dict[str, str]:
    """Liveness check: responds if the process runs, and checks nothing else."""
    return {"status": "ok"}


def readyz(db: Database, drain: Drain) -> HTTPRouteHandler:
    @get("/readyz")
    async def handler() -> Answer:
        """Readiness check: whether the database responds and the process is not shutting down."""
        if drain.is_on:
            return Response({"status": "stopping"}, status_code=503)
        try:
            await db.value("SELECT 1")
        except Unavailable as unavailable:
            return Response(
                {"status": "unavailable", "database": "away"},
                status_code=unavailable.status,
                headers={"Retry-After": str(unavailable.retry_after_seconds)},
            )
        return Response({"status": "ready", "database": "ok"})

    return handler


@get("/metrics", media_type=MediaType.TEXT)
async def metrics_page(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Serves metrics to scrapers on the local network. Requests through a proxy get 404."""
    if not _is_local(request):
        raise NotFoundException
    return Response(prometheus.render(), headers={"content-type": prometheus.CONTENT_TYPE})


# A request with any of these headers came through a proxy, so its sender is unknown.
BY_PROXY = ("x-forwarded-for", "forwarded", "x-real-ip", "via")


def _is_local(request: Request[Any, Any, Any]) -> bool:
    if any(name in request.headers for name in BY_PROXY) or request.client is None:
        return False
    try:
        address = ipaddress.ip_address(request.client.host)
    except ValueError:
        return False
    return address.is_loopback or address.is_private
