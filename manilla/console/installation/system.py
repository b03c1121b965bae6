"""The system health page: processes, queues, the database and API response times."""

import platform
import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial

import msgspec

from manilla import __version__
from manilla.kit import deadline, health
from manilla.kit.clock import LAGOS
from manilla.kit.display import duration
from manilla.kit.jobs.queues import job_queues
from manilla.merchants.requests import stored as stored_requests
from manilla.merchants.requests.stored import RequestHour
from manilla.notify import queries as notify
from manilla.web.charts import Chart, ChartSeries, number_unit
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse

STARTED_AT = datetime.now(UTC)
UNITS = ("B", "kB", "MB", "GB", "TB")


class Disk(msgspec.Struct, frozen=True):
    free: str
    percent_free: int

    @property
    def is_low(self) -> bool:
        return self.percent_free < 10


async def show(request: PageRequest) -> PageResponse:
    db = request.db
    store = await health.server(db)
    queues = await job_queues(db)
    hours = await deadline.or_none(stored_requests.hourly(db))
    oldest = [queue.oldest_due_at for queue in queues if queue.oldest_due_at is not None]
    return request.page(
        "system.html",
        programs=await health.programs(db),
        store=store,
        size=_bytes(store.size_bytes),
        replicas=await health.replicas(db),
        queues=queues,
        oldest=_elapsed_since(min(oldest)) if oldest else None,
        ago=_elapsed_since,
        backlog=await notify.backlog(db),
        has_mail=request.services.has_mail,
        mail_transport=request.services.mail_transport,
        waited=duration,
        disk=_disk(request),
        version=__version__,
        python=platform.python_version(),
        uptime=_elapsed_since(STARTED_AT),
        charts=None if hours is None else _charts(hours),
    )


def _disk(request: PageRequest) -> Disk | None:
    """Returns the data folder's disk usage, or None if the database runs elsewhere."""
    folder = request.services.data_folder
    if folder is None or not folder.is_dir():
        return None
    usage = shutil.disk_usage(folder)
    return Disk(_bytes(usage.free), 100 * usage.free // usage.total)


def _charts(hours: Sequence[RequestHour]) -> list[Chart]:
    times = [hour.hour.astimezone(LAGOS) for hour in hours]
    draw = partial(
        Chart,
        points=[f"{time:%-d %b, %H:%M}" for time in times],
        ticks=[f"{time:%H:%M}" for time in times],
        nothing="No requests in this period",
    )

    def by_hour(label: str, get: Callable[[RequestHour], float | None]) -> ChartSeries:
        return ChartSeries(label, [_rounded(get(hour)) for hour in hours])

    return [
        draw(
            title="Requests",
            series=[by_hour("Requests", lambda hour: hour.count)],
            unit=number_unit(),
        ),
        draw(
            title="Success rate",
            series=[by_hour("Success rate", lambda hour: hour.success_percent)],
            unit=number_unit(" %", top=100),
            is_bars=False,
        ),
        draw(
            title="Response time",
            series=[
                by_hour("Median", lambda hour: hour.median_milliseconds),
                by_hour("95th percentile", lambda hour: hour.slow_milliseconds),
            ],
            unit=number_unit(" ms"),
            is_bars=False,
        ),
    ]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def _elapsed_since(moment: datetime) -> str:
    return duration(max(int((datetime.now(UTC) - moment).total_seconds()), 0))


def _bytes(count: int) -> str:
    size, place = float(count), 0
    while size >= 1000 and place < len(UNITS) - 1:
        size, place = size / 1000, place + 1
    return (
        f"{size:.0f} {UNITS[place]}" if size >= 100 or not place else f"{size:.1f} {UNITS[place]}"
    )
