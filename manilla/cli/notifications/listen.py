"""`manilla listen`: prints a merchant's notifications as they happen, and can forward them."""

import asyncio
import contextlib
import signal
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import aiohttp
import typer

from manilla.cli.instance import Data, InstanceRefusal, Tools, run
from manilla.cli.output import Json, print_json, printable
from manilla.kit import outbound
from manilla.kit.clock import iso
from manilla.kit.db import Database
from manilla.kit.environment import Environment
from manilla.kit.errors import Unavailable
from manilla.kit.http import is_web_address
from manilla.ledger import trx_ids
from manilla.merchants import merchants
from manilla.merchants.directory import Directory
from manilla.notify import queries
from manilla.notify.ipn import signed_headers
from manilla.notify.queries import Notification
from manilla.platform.changes import ChangeWatch

POLL_SECONDS = 0.3
# Each query looks back this far, because a row that is committed later can have an earlier
# created_at.
OVERLAP = timedelta(seconds=15)
AT_ONCE_MAX = 10_000
FORWARD_SECONDS = 10.0
ANSWER_BYTES_SHOWN = 200


def listen(
    merchant: Annotated[
        int, typer.Option("--merchant", metavar="ID", min=1, max=trx_ids.MERCHANT_ID_MAX)
    ],
    forward: Annotated[
        str | None,
        typer.Option("--forward", metavar="URL", help="Forward each notification to this URL."),
    ] = None,
    environment: Annotated[Environment, typer.Option("--environment")] = Environment.SANDBOX,
    once: Annotated[
        bool, typer.Option("--once", help="Exit after the first notification.")
    ] = False,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Print a merchant's new notifications, and forward them; Ctrl-C stops.

    Delivery to the merchant is not affected.
    """
    if forward is not None and not is_web_address(forward):
        raise InstanceRefusal(f"{forward!r} is not an http:// or https:// URL.")

    async def command(tools: Tools) -> None:
        named = await merchants.get(tools.db, merchant)
        feed = _Feed(tools.db, merchant, environment)
        await feed.skip_existing()
        _print_status(f"Waiting for {environment} notifications to {printable(named.name)}.")
        await _until_interrupted(_follow(tools, feed, forward, once=once, as_json=as_json))

    run(data, command)


async def _until_interrupted(following: Any) -> None:
    task = asyncio.create_task(following)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def _follow(
    tools: Tools, feed: "_Feed", url: str | None, *, once: bool, as_json: bool
) -> None:
    directory = Directory(tools.db, tools.keyring, ChangeWatch(tools.db))
    is_away = False
    async with outbound.open_session(
        is_public_only=False, connections=1, seconds=FORWARD_SECONDS
    ) as session:
        while True:
            try:
                for each in await feed.new():
                    if not as_json:
                        print(f"{iso(each.created_at)}  {each.event}  {each.status}  {each.trx_id}")
                        print(f"    {printable(each.body.decode())}", flush=True)
                    forwarded = None
                    if url is not None:
                        headers = await signed_headers(directory, each, int(time.time()))
                        forwarded = await _forward(session, url, each.body, headers)
                    _print_result(each, forwarded, as_json=as_json)
                    if once:
                        return
                is_away = False
            except Unavailable as unavailable:
                if not is_away:
                    _print_status(f"{unavailable.text} Still waiting.")
                is_away = True
            await asyncio.sleep(POLL_SECONDS)


class _Feed:
    """Finds the notifications since the last query, by the database's clock."""

    def __init__(self, db: Database, merchant_id: int, environment: Environment) -> None:
        self._db = db
        self._merchant_id = merchant_id
        self._environment = environment
        self._newest = datetime.fromtimestamp(0, UTC) + OVERLAP
        self._seen: set[str] = set()

    async def skip_existing(self) -> None:
        for last in await self._query(limit=1):
            self._newest = max(self._newest, last.created_at)
        await self.new()

    async def new(self) -> list[Notification]:
        """Returns the new notifications, oldest first."""
        recent = await self._query(limit=AT_ONCE_MAX)
        fresh = [each for each in recent if each.id not in self._seen]
        self._seen = {each.id for each in recent}
        self._newest = max([self._newest, *(each.created_at for each in recent)])
        wanted = [each for each in fresh if each.environment == self._environment]
        return sorted(wanted, key=lambda each: each.id)

    async def _query(self, *, limit: int) -> list[Notification]:
        return await queries.notifications(
            self._db, merchant_id=self._merchant_id, since=self._newest - OVERLAP, limit=limit
        )


async def _forward(session: Any, url: str, body: bytes, headers: dict[str, str]) -> dict[str, Any]:
    began = time.monotonic()
    status, answer, error = None, None, None
    try:
        async with session.post(url, data=body, headers=headers, allow_redirects=False) as response:
            status = response.status
            answer = (await response.content.read(ANSWER_BYTES_SHOWN)).decode(errors="replace")
    except TimeoutError:
        error = f"no response within {FORWARD_SECONDS:.0f} seconds"
    except (aiohttp.ClientError, OSError, ValueError) as problem:
        error = outbound.describe(problem)
    milliseconds = round((time.monotonic() - began) * 1000)
    return {"status": status, "answer": answer, "milliseconds": milliseconds, "error": error}


def _print_result(each: Notification, forwarded: dict[str, Any] | None, *, as_json: bool) -> None:
    if as_json:
        names = ("environment", "event", "status", "trx_id")
        shown = {"id": each.id, "created_at": iso(each.created_at)}
        shown |= {name: getattr(each, name) for name in names}
        print_json({**shown, "body": each.body.decode(), "forwarded": forwarded})
    elif forwarded is not None and forwarded["error"] is not None:
        print(f"    not forwarded: {printable(forwarded['error'])}", flush=True)
    elif forwarded is not None:
        answer = f": {printable(forwarded['answer'])}" if forwarded["answer"] else ""
        print(
            f"    HTTP {forwarded['status']} in {forwarded['milliseconds']} ms{answer}", flush=True
        )


def _print_status(text: str) -> None:
    """Prints to standard error, so that the notifications on standard output can be piped."""
    print(text, file=sys.stderr, flush=True)
