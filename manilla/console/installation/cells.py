"""The page about all cells: the figures of each cell, read through its API."""

import asyncio
from collections.abc import Sequence

import msgspec

from manilla.cells import overview
from manilla.cells.client import CellUnreadable
from manilla.cells.overview import TASKS, CellOverview, DayVolume, TaskKind
from manilla.cells.registry import KnownCell
from manilla.kit.money import Money
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse


class ShownCell(msgspec.Struct, frozen=True):
    """A cell with its figures, or with the reason why they could not be read."""

    cell: KnownCell
    console: str  # the URL of the cell's console
    figures: CellOverview | None
    problem: str | None

    @property
    def tasks(self) -> list[tuple[TaskKind, int | None]]:
        """The kinds of tasks of which some are open, or of which the number is unknown."""
        counts = {} if self.figures is None else self.figures.tasks
        return [(kind, counts.get(kind.name)) for kind in TASKS if counts.get(kind.name) != 0]


class CellTotals(msgspec.Struct, frozen=True):
    merchants: int
    open_tasks: int
    volumes: Sequence[DayVolume]


async def show(request: PageRequest) -> PageResponse:
    cells = request.services.cells.now.cells.values()
    shown = await asyncio.gather(*(_read(request, cell) for cell in cells))
    return request.page(
        "cells.html",
        cells=shown,
        totals=_totals([each.figures for each in shown if each.figures is not None]),
        silent=[each.cell.name for each in shown if each.problem],
    )


async def _read(request: PageRequest, cell: KnownCell) -> ShownCell:
    services = request.services
    if cell.is_this:
        currencies = services.methods.currencies
        figures = await overview.read(services.db, services.cells.now, currencies)
        return ShownCell(cell, request.at("/"), figures, None)
    console = f"{cell.base_url}/console/"
    try:
        return ShownCell(cell, console, await services.cell_client.overview(cell), None)
    except CellUnreadable as problem:
        return ShownCell(cell, console, None, problem.text)


def _totals(figures: Sequence[CellOverview]) -> CellTotals:
    paid: dict[str, tuple[Money, Money]] = {}
    for each in (volume for one in figures for volume in one.volumes or ()):
        zero = Money(each.currency, 0)
        paid_in, paid_out = paid.get(each.currency, (zero, zero))
        paid[each.currency] = (paid_in + each.paid_in, paid_out + each.paid_out)
    return CellTotals(
        merchants=sum(each.merchants or 0 for each in figures),
        open_tasks=sum(each.open_tasks for each in figures),
        volumes=[
            DayVolume(currency, paid_in.minor, paid_out.minor)
            for currency, (paid_in, paid_out) in paid.items()
        ],
    )
