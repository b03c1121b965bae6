"""Reads the database server's query plans from the log of auto_explain."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import asyncpg
import msgspec

from manilla.kit.embedded import postgres
from manilla.kit.embedded.postgres import Cluster

SETTINGS = {
    "session_preload_libraries": "auto_explain",
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_nested_statements": "on",
    "auto_explain.log_format": "json",
    "auto_explain.log_analyze": "on",
    "auto_explain.log_timing": "off",
    "auto_explain.log_buffers": "on",
    # Use generic plans from the start, as PostgreSQL does later on long-lived connections.
    "plan_cache_mode": "force_generic_plan",
}
LOGGED = re.compile(rb"\[(\d+)\].*ms  plan:\n((?:\t.*\n)+)")  # the session, and the plan


class Scan(msgspec.Struct, frozen=True):
    table: str
    index: str | None  # None for a sequential scan
    condition: str
    query: str
    rows_read: float


class Batch(msgspec.Struct, frozen=True):
    """One execution of an SQL statement for a batch of items."""

    query: str
    pages: int  # the pages that the statement used, whether they were cached or not
    items: float  # the items that it was given, or the rows that it returned


class PlanLog:
    """The query plans logged on one database during a test."""

    def __init__(self, cluster: Cluster, database: str) -> None:
        self._cluster = cluster
        self._database = database
        self._file = cluster.folder.parent / "postgres.log"

    async def turn_on(self) -> None:
        """Enables the log of query plans for new connections."""
        connection = await asyncpg.connect(self._cluster.url(postgres.SUPERUSER, "postgres"))
        try:
            for name, value in SETTINGS.items():
                await connection.execute(
                    f"ALTER ROLE {postgres.APPLICATION} IN DATABASE {self._database}"
                    f" SET {name} = '{value}'"
                )
        finally:
            await connection.close()

    def position(self) -> int:
        return self._file.stat().st_size

    def scans(self, since: int) -> list[Scan]:
        return [
            scan
            for position, _, plan in self._plans()
            if position >= since
            for scan in _scans(plan["Plan"], plan["Query Text"])
        ]

    def batches(self, since: int) -> list[Batch]:
        """Returns the executions of SQL statements that use tables for the items of a batch."""
        batches, known = [], set()
        for position, session, plan in self._plans():
            query, nodes = plan["Query Text"], list(_nodes(plan["Plan"]))
            # A session's first execution also reads the catalog, for the plans of triggers.
            is_first = (session, query) not in known
            known.add((session, query))
            if position < since or is_first or not any(map(_is_batch, nodes[1:])):
                continue
            if any("Relation Name" in node for node in nodes):
                batches.append(_batch(query, nodes))
        return batches

    def _plans(self) -> Iterator[tuple[int, bytes, dict[str, Any]]]:
        """Yields the position, session and plan of each logged statement."""
        for logged in LOGGED.finditer(self._file.read_bytes()):
            yield logged.start(), logged[1], json.loads(logged[2])


def _batch(query: str, nodes: Sequence[dict[str, Any]]) -> Batch:
    root, *others = nodes  # the root's counts include those of the other nodes
    items = [node["Actual Rows"] for node in others if _is_batch(node)]
    pages = root["Shared Hit Blocks"] + root["Shared Read Blocks"]
    return Batch(" ".join(query.split()), pages, max(1, root["Actual Rows"], *items))


def _is_batch(node: dict[str, Any]) -> bool:
    return bool(node["Node Type"] == "Function Scan")  # such as unnest()


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", []):
        yield from _nodes(below)


def _scans(node: dict[str, Any], query: str, table: str = "") -> Iterator[Scan]:
    index = node.get("Index Name")
    # The plan node of a bitmap index scan does not contain the table's name, but its parent does.
    table = node.get("Relation Name", table)
    if index is not None or node["Node Type"] == "Seq Scan":
        condition = node.get("Index Cond", "")
        yield Scan(table, index, condition, " ".join(query.split()), _rows_read(node))
    for below in node.get("Plans", []):
        yield from _scans(below, query, table)


def _rows_read(node: dict[str, Any]) -> float:
    """Returns the number of rows that the plan node returned or filtered out, in all loops."""
    passed_over = sum(
        node.get(f"Rows Removed by {reason}", 0) for reason in ("Filter", "Index Recheck")
    )
    read: float = (node["Actual Rows"] + passed_over) * node["Actual Loops"]
    return read
