"""Functions that tests run in isolated processes."""

import os
import signal

from manilla.kit.errors import Refusal


class NotThis(Refusal):
    message = "Not this."


def repeat(text: str, times: int) -> list[str]:
    if times < 0:
        raise NotThis("Repeat it at least 0 times.")
    return [text] * times


def variables(prefix: str) -> list[str]:
    return [name for name in os.environ if name.startswith(prefix)]


def process_ids(_text: str) -> tuple[int, int]:
    return os.getpid(), os.getppid()


def spin(text: str) -> str:
    while True:
        text = text[::-1]


def sleep(_text: str) -> str:
    signal.pause()
    return ""


def grow(text: str) -> str:
    return text * 10**9


def fail(text: str) -> str:
    raise ValueError(text)


def kill_parent(text: str) -> str:
    os.kill(os.getppid(), signal.SIGKILL)
    return text
