"""The system health page: processes, queues, the database and API response times."""

import platform
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from manilla import __version__
from manilla.kit import deadline, health
from manilla.kit.display import duration
from manilla.kit.jobs.queues import job_queues
from manilla.merchants.requests import stored as stored_requests
from manilla.merchants.requests.stored import RequestHour
from manilla.notify import queries as notify
from manilla.web import charts
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
        hours=hours,
        charts=None if hours is None else _charts(hours),
    )


def _disk(request: PageRequest) -> Disk | None:
    """Returns the disk usage, or None without a data folder (the database runs elsewhere)."""
    folder = request.services.data_folder
    if folder is None or not folder.is_dir():
        return None
    usage = shutil.disk_usage(folder)
    return Disk(_bytes(usage.free), 100 * usage.free // usage.total)


def _charts(hours: Sequence[RequestHour]) -> list[tuple[str, str]]:
    """Returns pairs of chart title and chart data."""
    moments = [hour.hour for hour in hours]
    return [
        (
            "Requests per hour",
            charts.hourly(moments, {"Requests": [hour.count for hour in hours]}),
        ),
        (
            "Success rate",
            charts.hourly(
                moments,
                {"Success rate": [_rounded(hour.success_percent) for hour in hours]},
                unit=" %",
                high=100,
            ),
        ),
        (
            "Response time",
            charts.hourly(
                moments,
                {
                    "Median": [_rounded(hour.median_milliseconds) for hour in hours],
                    "95th percentile": [_rounded(hour.slow_milliseconds) for hour in hours],
                },
                unit=" ms",
            ),
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
