"""Stores the position of `listen` in the event list in a file, for the next start."""

import hashlib
import json
from collections import deque
from collections.abc import Iterable
from typing import Any

from manilla_client.command import private_files
from manilla_client.command.accounts import Account
from manilla_client.command.failure import CommandFailed

AHEAD_MAX = 1000  # At most this many newer events are read while an older event is undelivered.


class Progress:
    """The position up to which all events are delivered, and the events delivered after it.

    If the receiver rejects an event, the position stays before that event, but other transactions'
    events are still delivered. Their ids are stored until the position has passed them.
    """

    def __init__(self, account: Account) -> None:
        owner = f"{account.url} {account.credentials.merchant_key}"
        name = f"{account.name}-{hashlib.sha256(owner.encode()).hexdigest()[:16]}.json"
        self._path = private_files.state_folder() / "listen" / name
        self._saved: bytes | None = None
        self.since: str | None = None  # an event's id, or a time
        self._delivered: set[str] = set()
        # the ids of the events read since the stored position, oldest first
        self._read: deque[str] = deque()

    @property
    def is_stored(self) -> bool:
        return self._saved is not None

    @property
    def last_read(self) -> str:
        assert self.since is not None
        return self._read[-1] if self._read else self.since

    @property
    def has_room(self) -> bool:
        return len(self._read) < AHEAD_MAX

    def add(self, event_ids: Iterable[str]) -> None:
        self._read.extend(event_ids)

    def is_delivered(self, event_id: str) -> bool:
        return event_id in self._delivered

    def record_delivered(self, event_ids: Iterable[str]) -> None:
        self._delivered.update(event_ids)
        while self._read and self._read[0] in self._delivered:
            self.since = self._read.popleft()
            self._delivered.remove(self.since)
        self._save()

    def lock(self) -> Any:
        """Locks the position. Two processes that share it would skip each other's events."""
        try:
            import fcntl
        except ImportError:
            return None  # Windows has no `fcntl` locks
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self._path.with_suffix(".lock").open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise CommandFailed("Another `listen` with these keys is running.") from None
        return file

    def load(self) -> None:
        self._saved = private_files.read(self._path)
        if self._saved is None:
            return
        try:
            document = json.loads(self._saved)
            self.since, self._delivered = str(document["since"]), set(document["delivered"])
        except (ValueError, KeyError, TypeError):
            raise CommandFailed(f"{self._path} is damaged: use --since.") from None

    def _save(self) -> None:
        document = {"since": self.since, "delivered": sorted(self._delivered)}
        content = json.dumps(document).encode()
        if content != self._saved:
            private_files.write(self._path, content)
            self._saved = content
