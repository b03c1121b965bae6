"""`manilla cell list`, `map` and `check`: where each merchant lives, and how a proxy finds it."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from manilla.audit import audit
from manilla.cells import checking, directory, maps, registry, report
from manilla.cells.client import CellClient, CellUnreadable
from manilla.cells.maps import CellMaps, Proxy
from manilla.cells.registry import KnownCell
from manilla.cells.report import CellReport
from manilla.cli.cells.options import CellName
from manilla.cli.instance import InstanceRefusal, Tools, command
from manilla.cli.options import MerchantId
from manilla.kit.errors import Refusal
from manilla.providers import credentials
from manilla.providers.rails import open_client

app = typer.Typer()

ForProxy = Annotated[Proxy, typer.Option("--for", help="The proxy that reads the map.")]


class MapIncomplete(Refusal):
    message = "The map is not complete."


class MapDisputed(Refusal):
    message = "No map was written, because cells disagree."


@command(app, "list")
async def list_(
    tools: Tools,
    merchants: Annotated[
        bool, typer.Option("--merchants", help="List the merchants of each cell.")
    ] = False,
) -> None:
    """List all cells, with the numbers of their merchants. Reads the other cells."""
    async with _reader(tools) as reader:
        found = await asyncio.gather(
            *(
                _report_or_problem(tools, reader, cell)
                for cell in await registry.list_cells(tools.db)
            )
        )
    if merchants:
        rows = [
            {"cell": cell.name, "id": each.id, "name": each.name, "status": each.status}
            for cell, read in found
            if isinstance(read, CellReport)
            for each in read.merchants
        ]
        tools.print_rows(rows, "There are no merchants yet.")
    else:
        empty = "This installation is not a cell."
        tools.print_rows([_row(tools, *each) for each in found], empty)
    silent = [read.text for _, read in found if isinstance(read, CellUnreadable)]
    if merchants and silent:
        raise InstanceRefusal(" ".join(silent))


@command(app, "map")
async def print_map(
    tools: Tools,
    proxy: ForProxy,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write the files into this folder.")
    ] = None,
) -> None:
    """Print the maps with which a proxy finds the cell of a request. Reads the other cells.

    Exits with 1, and writes nothing, if two cells claim the same merchant or key, or if a cell
    claims a merchant that its first cell has not moved there.
    """
    reports = await _reports(tools)
    disputes = [*checking.find_disputes(reports)]
    if disputes:
        _print_lines(tools, disputes)
        raise MapDisputed(f"No map was written (problems: {len(disputes)}). {disputes[0]}")
    files = maps.render(maps.build(reports), proxy)
    if out is not None:
        await asyncio.to_thread(_write, out, files)
        tools.print_fields({"folder": str(out), "files": list(files)})
    else:
        text = "\n".join(f"# {name}\n{content}" for name, content in files.items())
        tools.print_text(text.rstrip("\n"), files)


@command(app)
async def check(
    tools: Tools,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of the map files.")],
    proxy: ForProxy,
) -> None:
    """Check that map files lead every merchant's requests to its cell. Reads the other cells.

    Exits with 1 if a merchant key, a transaction id, a payment link or a provider account leads to
    another cell or to none.
    """
    files = await asyncio.to_thread(_read, folder, proxy)
    try:
        given: CellMaps = maps.parse(files, proxy)
    except ValueError as error:
        raise MapIncomplete(str(error)) from None
    reports = await _reports(tools)
    problems = [*checking.find_problems(reports, given, proxy)]
    notes = [*checking.find_shared_accounts(reports, given)]
    _print_lines(tools, [*notes, *problems])
    if problems:
        raise MapIncomplete(f"The map is not complete (problems: {len(problems)}). {problems[0]}")
    count = sum(len(cell.merchants) for cell in reports)
    tools.print_fields({"cells": len(reports), "merchants": count, "problems": 0, "notes": notes})


@command(app)
async def locate(tools: Tools, merchant_id: MerchantId, name: CellName) -> None:
    """Record that a merchant lives in another cell, after a move between two other cells."""
    cells = await directory.load(tools.db)
    this, home = await registry.required_this(tools.db), await registry.get(tools.db, name)
    if home.is_this or cells.home_of(merchant_id) == this:
        raise registry.BadCell(
            "This command is only for merchants that live in other cells. Use `manilla cell move`."
        )
    known = cells.home_of(merchant_id)
    before = None if known is None else known.name
    async with tools.db.transaction() as connection:
        await registry.record_home(connection, merchant_id, name)
        await audit.record(
            connection,
            "cell.locate",
            f"merchant:{merchant_id}",
            changed={"cell": {"before": before, "after": name}},
        )
    tools.print_fields({"merchant_id": merchant_id, "cell": name})


def _print_lines(tools: Tools, lines: list[str]) -> None:
    if not tools.as_json:
        print(*lines, sep="\n", end="\n" if lines else "")


@asynccontextmanager
async def _reader(tools: Tools) -> AsyncIterator[CellClient]:
    async with open_client() as client:
        yield CellClient(tools.db, tools.keyring, client)


async def _reports(tools: Tools) -> list[CellReport]:
    """Returns the reports of all cells. Fails if a cell cannot be read."""
    await registry.required_this(tools.db)
    async with _reader(tools) as reader:
        cells = await registry.list_cells(tools.db)
        return await asyncio.gather(*(_report(tools, reader, cell) for cell in cells))


async def _report(tools: Tools, reader: CellClient, cell: KnownCell) -> CellReport:
    if not cell.is_this:
        return await reader.routes(cell)
    accounts = await credentials.usable(tools.db, tools.keyring)
    cells = await directory.load(tools.db)
    return await report.whole(
        lambda after: report.read(tools.db, cells, tools.base_url, accounts, after)
    )


async def _report_or_problem(
    tools: Tools, reader: CellClient, cell: KnownCell
) -> tuple[KnownCell, CellReport | CellUnreadable]:
    try:
        return cell, await _report(tools, reader, cell)
    except CellUnreadable as problem:
        return cell, problem


def _row(tools: Tools, cell: KnownCell, read: CellReport | CellUnreadable) -> dict[str, Any]:
    row = {**msgspec.structs.asdict(cell), "base_url": cell.base_url or tools.base_url}
    if isinstance(read, CellUnreadable):
        return {**row, "merchants": None, "accounts": None, "problem": read.text}
    return {
        **row,
        "merchants": len(read.merchants),
        "accounts": list(read.accounts),
        "problem": None,
    }


def _write(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        new = folder / f".{name}.new"
        new.write_text(content)
        os.replace(new, folder / name)


def _read(folder: Path, proxy: Proxy) -> dict[str, str]:
    try:
        return {file.name: (folder / file.name).read_text() for file in maps.files_for(proxy)}
    except OSError as error:
        raise MapIncomplete(
            f"{error.filename}: {error.strerror}. `manilla cell map --for {proxy} --out {folder}`"
            " writes the maps."
        ) from None
