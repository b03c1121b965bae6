"""The console's overview page: the numbers of open tasks, and the platform's volume."""

import asyncio
from datetime import UTC, datetime, timedelta

import msgspec

from manilla.approvals import approvals
from manilla.cases import listing as cases
from manilla.kit import deadline
from manilla.kit.environment import Environment
from manilla.kit.jobs import failed
from manilla.ledger.scope import Everyone
from manilla.mail import listing as mails
from manilla.merchants import roster
from manilla.notify import listing as notifications
from manilla.payouts import figures as payouts
from manilla.providers.queries import rails_down
from manilla.web import volume
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse

FAILED_NOTIFICATIONS_AGE = timedelta(days=7)


class OpenTasks(msgspec.Struct, frozen=True):
    """The number of open tasks of one kind, such as manual payouts."""

    title: str
    count: int | None  # None if counting the open tasks took too long
    path: str
    icon: str


async def show(request: PageRequest) -> PageResponse:
    currencies = request.services.methods.currencies or ["NGN"]
    wanted = request.query.text("currency")
    currency = wanted if wanted in currencies else _first(currencies)
    is_sandbox = request.query.text("environment") == Environment.SANDBOX
    environment = Environment.SANDBOX if is_sandbox else Environment.PRODUCTION
    scope = Everyone(environment=environment)
    period = volume.chosen_period(request.query.text("period"))
    return request.page(
        "overview.html",
        waiting=await _open_tasks(request, environment),
        shown_environment=environment,
        currency=currency,
        currencies=currencies,
        period=period,
        periods=volume.PERIODS,
        measure=volume.measure(request.query.text("show")),
        volume=await deadline.or_none(volume.volume(request.reads, scope, currency, period)),
    )


async def _open_tasks(request: PageRequest, environment: Environment) -> list[OpenTasks]:
    db, chosen = request.db, Everyone(environment=environment)
    suffix = "?environment=sandbox" if environment is Environment.SANDBOX else ""
    since = datetime.now(UTC) - FAILED_NOTIFICATIONS_AGE
    tasks = {
        ("Pending merchants", "/merchants?status=pending", "building-store"): (
            roster.count_pending(db)
        ),
        ("Manual payouts", f"/payouts{suffix}", "hand-stop"): payouts.count_manual(db, chosen),
        ("Open cases", f"/cases{suffix}", "gavel"): cases.count_open(db, chosen),
        ("Pending approvals", "/approvals", "circle-check"): _approvals_waiting(request),
        ("Failed notifications, last 7 days", "/notifications?state=failed", "bell"): (
            notifications.count_failed(db, Everyone(), since)
        ),
        ("Failed emails", "/mail?state=failed", "mail"): mails.count_failed(db),
        ("Failed jobs", "/jobs", "inbox"): failed.count_failed_jobs(db),
        ("Rails down", "/rails", "plug-connected"): _rails_down(request),
    }
    # To keep the page fast, a count that takes too long is shown as unknown.
    counts = await asyncio.gather(*map(deadline.or_none, tasks.values()))
    return [
        OpenTasks(title, count, path, icon)
        for (title, path, icon), count in zip(tasks, counts, strict=True)
    ]


async def _approvals_waiting(request: PageRequest) -> int:
    return len(await approvals.waiting(request.db))


async def _rails_down(request: PageRequest) -> int:
    return len(await rails_down(request.db))


def _first(currencies: list[str]) -> str:
    return "NGN" if "NGN" in currencies else currencies[0]
