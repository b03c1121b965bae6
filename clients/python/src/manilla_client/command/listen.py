"""`manilla-client listen` forwards all of the merchant's events to a local receiver."""

import argparse
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, NoReturn

from manilla_client.bodies import Event
from manilla_client.command import accounts
from manilla_client.command.feed import WAIT_SECONDS_MAX, Feed, Unreachable
from manilla_client.command.output import printable
from manilla_client.command.progress import Progress
from manilla_client.command.receiver import Receiver
from manilla_client.command.stopping import Stopping
from manilla_client.transport import Answer

RETRY_SECONDS_MAX = 30
# Reading once per second leaves half of the rate limit for a shop with the same IP address.
READ_INTERVAL_SECONDS = 1.0


def add_to(commands: Any) -> None:
    about = "Forward events to a receiver on this machine, as the platform would send them."
    details = (
        "Continues where it ended, or starts now if it never ran with these keys. An event that "
        "the receiver does not answer with 2xx is sent again, before the transaction's next one."
    )
    parser = commands.add_parser("listen", help=about, description=f"{about} {details}")
    parser.add_argument(
        "--forward-to", required=True, metavar="URL", help="The URL of the receiver."
    )
    parser.add_argument(
        "--since", metavar="T", help="Start at this time (2026-01-02T03:04:05Z), or after an event."
    )
    parser.add_argument(
        "--type",
        action="append",
        metavar="PATTERN",
        help="Only events of this type, such as payment.*; can be repeated.",
    )
    accounts.add_option(parser)
    parser.set_defaults(run=_run)


def _run(given: argparse.Namespace) -> int:
    account = accounts.choose(given.profile)
    receiver, progress = Receiver(given.forward_to, account.credentials), Progress(account)
    lock = progress.lock()
    if given.since is None:
        progress.load()
    else:
        progress.since = given.since
    about = f"{account.name} ({account.credentials.environment})"
    _report(f"Forwarding the events of {about} to {given.forward_to}. Ctrl-C stops.")
    try:
        Listener(Feed(account), receiver, progress, given.type or ["*"], Stopping()).run()
    except KeyboardInterrupt:
        return 0
    finally:
        if lock is not None:
            lock.close()


@dataclass(slots=True)
class Backoff:
    """Schedules the retries of a failed action after 1, 2, 4, ... seconds."""

    failures: int = 0
    due_at: float = 0

    def postpone(self, seconds_min: float = 0) -> float:
        """Schedules the next attempt, and returns the number of seconds until that attempt."""
        seconds = max(seconds_min, min(1 << self.failures, RETRY_SECONDS_MAX))
        self.failures += 1
        self.due_at = time.monotonic() + seconds
        return seconds


class Listener:
    def __init__(
        self,
        feed: Feed,
        receiver: Receiver,
        progress: Progress,
        patterns: Sequence[str],
        stopping: Stopping,
    ) -> None:
        self._feed = feed
        self._receiver = receiver
        self._progress = progress
        self._patterns = patterns
        self._stopping = stopping
        # maps event ids to the events to forward, oldest first
        self._waiting: dict[str, Event] = {}
        self._retries: dict[str, Backoff] = {}  # by transaction
        self._reading = Backoff()
        self._cursor: str | None = None

    def run(self) -> NoReturn:
        while True:
            self._forward_due()
            now = time.monotonic()
            retry_at = min((each.due_at for each in self._retries.values()), default=math.inf)
            read_at = self._reading.due_at if self._progress.has_room else math.inf
            if read_at <= now:
                self._read(max(0.0, min(retry_at - now, WAIT_SECONDS_MAX)))
            else:
                time.sleep(max(0.0, min(read_at, retry_at) - now))

    def _read(self, wait_seconds: float) -> None:
        """Reads the next events. If there are no new events, waits for them."""
        self._reading.due_at = time.monotonic() + READ_INTERVAL_SECONDS
        try:
            if self._progress.since is None:
                self._progress.since = self._feed.now()
            # Do not wait for events until the first response has shown that the position is valid.
            wait = int(wait_seconds) if self._progress.is_stored else 0
            page = self._feed.page(self._progress.last_read, self._cursor, wait)
        except Unreachable as away:
            seconds = self._reading.postpone(away.retry_after_seconds)
            _report(f"Events cannot be read: {away} Trying again in {seconds:.0f} s.")
            return
        self._reading.failures = 0
        # After a page without events, continue from the cursor. Otherwise, use the last event's id.
        self._cursor = None if page.data else page.next_cursor
        self._take(page.data)

    def _take(self, events: Sequence[Event]) -> None:
        wanted = {
            each.id: each
            for each in events
            if not self._progress.is_delivered(each.id)
            and any(fnmatchcase(each.type, pattern) for pattern in self._patterns)
        }
        self._progress.add(each.id for each in events)
        self._waiting.update(wanted)
        self._progress.record_delivered(each.id for each in events if each.id not in wanted)

    def _forward_due(self) -> None:
        """Forwards the due events. If a delivery fails, later events of its transaction wait."""
        held_back = {
            trx_id for trx_id, retry in self._retries.items() if retry.due_at > time.monotonic()
        }
        for event in list(self._waiting.values()):
            if event.trx_id in held_back:
                continue
            with self._stopping.after_step():
                if self._forward(event):
                    del self._waiting[event.id]
                    self._retries.pop(event.trx_id, None)
                    self._progress.record_delivered([event.id])
                else:
                    held_back.add(event.trx_id)

    def _forward(self, event: Event) -> bool:
        began = time.monotonic()
        outcome = self._receiver.post(event)
        if isinstance(outcome, Answer) and outcome.status // 100 == 2:
            took = f"HTTP {outcome.status} in {(time.monotonic() - began) * 1000:.0f} ms"
            print(f"{_line(event)}  {took}", flush=True)
            return True
        reason = f"HTTP {outcome.status}" if isinstance(outcome, Answer) else outcome.reason
        seconds = self._retries.setdefault(event.trx_id, Backoff()).postpone()
        _report(f"{_line(event)}  {printable(reason)}; trying again in {seconds:.0f} s")
        return False


def _line(event: Event) -> str:
    parts = (event.created_at.isoformat(), event.type, event.trx_id, event.ref_trx or "-")
    return printable("  ".join(parts))


def _report(text: str) -> None:
    """Prints to standard error, because standard output contains only the forwarded events."""
    print(text, file=sys.stderr, flush=True)
