"""The overview: open tasks and platform figures."""

import asyncio
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from manilla.approvals import approvals
from manilla.cases import listing as cases
from manilla.kit.deadline import OPTIONAL_SECONDS
from manilla.kit.environment import Environment
from manilla.kit.errors import Unavailable
from manilla.kit.jobs import failed
from manilla.ledger.scope import Everyone
from manilla.merchants import roster
from manilla.notify import listing as notifications
from manilla.payments import figures as payments
from manilla.payouts import figures as payouts
from manilla.web import charts
from manilla.web.page_request import PageRequest
from manilla.web.routes import Answer

FAILED_NOTIFICATIONS_AGE = timedelta(days=7)


class Waiting(msgspec.Struct, frozen=True):
    """The number of open tasks of one kind."""

    title: str
    count: int | None  # None if counting took too long
    path: str
    icon: str


async def show(request: PageRequest) -> Answer:
    currencies = await roster.currencies(request.services.db) or ["NGN"]
    wanted = request.query.text("currency")
    currency = wanted if wanted in currencies else _first(currencies)
    is_sandbox = request.query.text("environment") == Environment.SANDBOX
    environment = Environment.SANDBOX if is_sandbox else Environment.PRODUCTION
    return request.page(
        "overview.html",
        waiting=await _waiting(request, environment),
        shown_environment=environment,
        currency=currency,
        currencies=currencies,
        figures=await _figures(request, environment, currency),
    )


async def _waiting(request: PageRequest, environment: Environment) -> list[Waiting]:
    db, everyone = request.services.db, Everyone()
    chosen, suffix = Everyone(environment=environment), ""
    if environment is Environment.SANDBOX:
        suffix = f"?environment={environment}"
    since = datetime.now(UTC) - FAILED_NOTIFICATIONS_AGE
    queues = (
        ("Pending merchants", "/merchants?status=pending", "building-store"),
        ("Manual payouts", f"/payouts{suffix}", "hand-stop"),
        ("Open cases", f"/cases{suffix}", "gavel"),
        ("Pending approvals", "/approvals", "circle-check"),
        ("Failed notifications, last 7 days", "/notifications?state=failed", "bell"),
        ("Failed jobs", "/jobs", "inbox"),
        ("Rails down", "/providers", "plug-connected"),
    )
    counts = await asyncio.gather(
        _count_or_none(roster.count_pending(db)),
        _count_or_none(payouts.count_manual(db, chosen)),
        _count_or_none(cases.count_open(db, chosen)),
        _count_or_none(_approvals_waiting(request)),
        _count_or_none(notifications.count_failed(db, everyone, since)),
        _count_or_none(failed.count_failed_jobs(db)),
        _count_or_none(_rails_down(request)),
    )
    return [
        Waiting(title, count, path, icon)
        for (title, path, icon), count in zip(queues, counts, strict=True)
    ]


async def _approvals_waiting(request: PageRequest) -> int:
    return len(await approvals.waiting(request.services.db))


async def _rails_down(request: PageRequest) -> int:
    return sum(rail.is_down for rail in await request.services.rails.health.overview())


async def _figures(
    request: PageRequest, environment: Environment, currency: str
) -> dict[str, Any] | None:
    """Returns None if the queries take too long, so that the open tasks are shown anyway."""
    db, scope = request.services.db, Everyone(environment=environment)
    try:
        async with asyncio.timeout(OPTIONAL_SECONDS):
            paid_in = await payments.daily(db, scope, currency)
            paid_out = await payouts.daily(db, scope, currency)
    except (TimeoutError, Unavailable):
        return None
    return {
        "paid_in": sum(day.volume_minor for day in paid_in),
        "payments": charts.share(paid_in, "paid"),
        "paid_out": sum(day.volume_minor for day in paid_out),
        "payouts": charts.share(paid_out, "paid"),
        "success_rate": charts.success_rate(paid_in),
        "chart": charts.volume(currency, paid_in, paid_out),
    }


async def _count_or_none(counting: Awaitable[int]) -> int | None:
    """Returns None if counting takes too long, so that one slow count does not delay the page."""
    try:
        async with asyncio.timeout(OPTIONAL_SECONDS):
            return await counting
    except (TimeoutError, Unavailable):
        return None


def _first(currencies: list[str]) -> str:
    return "NGN" if "NGN" in currencies else currencies[0]
