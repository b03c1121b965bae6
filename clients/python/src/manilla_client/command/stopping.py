"""Stops the command after the current step when the user presses Ctrl-C or a signal arrives."""

import contextlib
import signal
from collections.abc import Iterator


class Stopping:
    """Raises KeyboardInterrupt after the current step, or immediately on the second signal."""

    def __init__(self) -> None:
        self._is_busy = self._is_asked = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._ask)

    @contextlib.contextmanager
    def after_step(self) -> Iterator[None]:
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False
        if self._is_asked:
            raise KeyboardInterrupt

    def _ask(self, *_: object) -> None:
        if not self._is_busy or self._is_asked:
            raise KeyboardInterrupt
        self._is_asked = True
