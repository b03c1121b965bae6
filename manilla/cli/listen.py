"""`manilla listen`: prints a merchant's notifications as they happen, and can forward them."""

import asyncio
import contextlib
import signal
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import aiohttp
import msgspec
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
from manilla.notify.delivery import signed_headers
from manilla.notify.queries import Notification
from manilla.platform.changes import ChangeWatch

POLL_SECONDS = 0.3
# A row that is committed later can have an earlier created_at, so each query looks back this far.
OVERLAP = timedelta(seconds=15)
AT_ONCE_MAX = 10_000
FORWARD_SECONDS = 10.0
ANSWER_BYTES_SHOWN = 200


class Forwarded(msgspec.Struct, frozen=True):
    """The response of the URL that a notification was forwarded to."""

    status: int | None
    answer: str | None
    milliseconds: int
    error: str | None


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
        listener = _Listener(tools, merchant, environment, forward, as_json=as_json)
        await listener.begin()
        _print_status(f"Waiting for {environment} notifications to {printable(named.name)}.")
        await _until_interrupted(listener.follow(once=once))

    run(data, command)


async def _until_interrupted(following: Any) -> None:
    task = asyncio.create_task(following)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


class _Listener:
    def __init__(
        self,
        tools: Tools,
        merchant_id: int,
        environment: Environment,
        forward: str | None,
        *,
        as_json: bool,
    ) -> None:
        self._feed = _Feed(tools.db, merchant_id)
        self._directory = Directory(tools.db, tools.keyring, ChangeWatch(tools.db))
        self._environment = environment
        self._forward_to = forward
        self._as_json = as_json

    async def begin(self) -> None:
        await self._feed.begin()

    async def follow(self, *, once: bool) -> None:
        is_away = False
        async with outbound.open_session(
            is_public_only=False, connections=1, seconds=FORWARD_SECONDS
        ) as session:
            while True:
                try:
                    for each in await self._feed.new():
                        if each.environment == self._environment:
                            await self._handle(session, each)
                            if once:
                                return
                    is_away = False
                except Unavailable as unavailable:
                    if not is_away:
                        _print_status(f"{unavailable.text} Still waiting.")
                    is_away = True
                await asyncio.sleep(POLL_SECONDS)

    async def _handle(self, session: Any, each: Notification) -> None:
        if not self._as_json:
            print(f"{iso(each.created_at)}  {each.event}  {each.status}  {each.trx_id}")
            print(f"    {printable(each.body.decode())}", flush=True)
        forwarded = None
        if self._forward_to is not None:
            headers = await signed_headers(self._directory, each, int(time.time()))
            forwarded = await _forward(session, self._forward_to, each.body, headers)
        if self._as_json:
            print_json(_described(each, forwarded))
        elif forwarded is not None:
            print(f"    {_describe(forwarded)}", flush=True)


class _Feed:
    """Notifications that are new since the last query, by the database's clock."""

    def __init__(self, db: Database, merchant_id: int) -> None:
        self._db = db
        self._merchant_id = merchant_id
        self._newest = datetime.fromtimestamp(0, UTC) + OVERLAP
        self._seen: set[str] = set()

    async def begin(self) -> None:
        """Marks existing notifications as seen."""
        for last in await self._query(limit=1):
            self._newest = max(self._newest, last.created_at)
        await self.new()

    async def new(self) -> list[Notification]:
        """Returns the new notifications, oldest first."""
        recent = await self._query(limit=AT_ONCE_MAX)
        fresh = [each for each in recent if each.id not in self._seen]
        self._seen = {each.id for each in recent}
        self._newest = max([self._newest, *(each.created_at for each in recent)])
        return sorted(fresh, key=lambda each: each.id)

    async def _query(self, *, limit: int) -> list[Notification]:
        return await queries.notifications(
            self._db, merchant_id=self._merchant_id, since=self._newest - OVERLAP, limit=limit
        )


async def _forward(session: Any, url: str, body: bytes, headers: dict[str, str]) -> Forwarded:
    began = time.monotonic()
    status, answer, error = None, None, None
    try:
        async with session.post(url, data=body, headers=headers, allow_redirects=False) as response:
            status = response.status
            answer = (await response.content.read(ANSWER_BYTES_SHOWN)).decode(errors="replace")
    except TimeoutError:
        error = f"no response within {FORWARD_SECONDS:.0f} seconds"
    except (aiohttp.ClientError, OSError, ValueError) as problem:
        error = outbound.told(problem)
    return Forwarded(status, answer, round((time.monotonic() - began) * 1000), error)


def _describe(forwarded: Forwarded) -> str:
    if forwarded.error is not None:
        return f"not forwarded: {printable(forwarded.error)}"
    came = f"HTTP {forwarded.status} in {forwarded.milliseconds} ms"
    return f"{came}: {printable(forwarded.answer)}" if forwarded.answer else came


def _described(each: Notification, forwarded: Forwarded | None) -> dict[str, Any]:
    return {
        "id": each.id,
        "created_at": iso(each.created_at),
        "environment": each.environment,
        "event": each.event,
        "status": each.status,
        "trx_id": each.trx_id,
        "body": each.body.decode(),
        "forwarded": forwarded,
    }


def _print_status(text: str) -> None:
    """Prints to standard error, so that the notifications on standard output can be piped."""
    print(text, file=sys.stderr, flush=True)
