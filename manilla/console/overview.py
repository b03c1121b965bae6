"""The console's overview page: the numbers of open tasks, and the platform's volume."""

import msgspec

from manilla.cells.overview import TASKS, count_tasks
from manilla.console.installation import condition
from manilla.kit import deadline
from manilla.kit.environment import Environment
from manilla.ledger.scope import Everyone
from manilla.web import volume
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse


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
        condition=await condition.read(request),
        cell=request.services.cells.now.this,
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
    # To keep the page fast, a count that takes too long is shown as unknown.
    counts = await count_tasks(request.db, environment)
    suffix = "?environment=sandbox" if environment is Environment.SANDBOX else ""
    return [
        OpenTasks(
            kind.title,
            counts[kind.name],
            kind.path + (suffix if kind.has_environments else ""),
            kind.icon,
        )
        for kind in TASKS
    ]


def _first(currencies: list[str]) -> str:
    return "NGN" if "NGN" in currencies else currencies[0]
