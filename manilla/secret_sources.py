"""Reads secrets from environment variables, from files, or from the output of commands.

A secret variable NAME can be given as NAME (the value), as NAME_FILE (the path of a file that
contains the value) or as NAME_COMMAND (a command that prints the value, for example the client of a
key management service). Error messages never contain the value, or what a command has printed.
"""

import contextlib
import os
import shlex
import signal
import stat
import subprocess
import threading
from collections.abc import Iterable, Mapping, MutableMapping

from manilla.kit import time_limits

FILE, COMMAND = "_FILE", "_COMMAND"
BYTES_MAX = 64 * 1024


class UnreadableSecret(Exception):
    """The file or the command of a secret cannot be used. The text is the reason."""


def is_given(environment: Mapping[str, str], name: str) -> bool:
    return any(_given(environment, name))


def override(environment: MutableMapping[str, str], values: Mapping[str, str]) -> None:
    """Sets variables, and removes the files and commands that would be a second source of them."""
    for name, value in values.items():
        environment.pop(name + FILE, None)
        environment.pop(name + COMMAND, None)
        environment[name] = value


def resolve(
    environment: Mapping[str, str], names: Iterable[str], *, is_production: bool
) -> tuple[dict[str, str], list[str]]:
    """Returns the values of the secrets that are given, and the problems with the others."""
    values, problems = {}, []
    for name in names:
        try:
            if value := _read(environment, name, is_production=is_production):
                values[name] = value
        except UnreadableSecret as problem:
            problems.append(str(problem))
    return values, problems


def describe(environment: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Maps each secret that is given to its source, without arguments of commands."""
    sources = {"": "set directly", FILE: "file {}", COMMAND: "command"}
    return {
        name: sources[variable.removeprefix(name)].format(environment[variable])
        for name in names
        for variable in _given(environment, name)
    }


def _given(environment: Mapping[str, str], name: str) -> list[str]:
    variables = (name, name + FILE, name + COMMAND)
    return [variable for variable in variables if environment.get(variable)]


def _read(environment: Mapping[str, str], name: str, *, is_production: bool) -> str:
    variables = _given(environment, name)
    if len(variables) > 1:
        raise UnreadableSecret(f"{' and '.join(variables)} are set; use only one of them")
    if name in variables or not variables:
        return environment.get(name, "")
    [variable] = variables
    try:
        if variable == name + FILE:
            value = _read_file(environment[variable], is_production=is_production)
        else:
            value = _run(environment[variable])
        text = value.decode().rstrip("\r\n")
    except UnreadableSecret as problem:
        raise UnreadableSecret(f"{variable}: {problem}") from None
    except UnicodeDecodeError:
        raise UnreadableSecret(f"{variable}: the value is not text in UTF-8") from None
    if not text:
        raise UnreadableSecret(f"{variable}: the value is empty")
    return text


def _read_file(path: str, *, is_production: bool) -> bytes:
    try:
        # Opening a named pipe would otherwise wait until a program writes to the pipe.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise UnreadableSecret(f"{path} is not a file")
            # The group's bits are not checked: systemd grants access to credentials with an ACL.
            if is_production and mode & stat.S_IRWXO:
                raise UnreadableSecret(f"other users can read or change {path} (chmod o= {path})")
            return _limited(file.read(BYTES_MAX + 1))
    except OSError as error:
        raise UnreadableSecret(f"cannot read {path}: {error.strerror}") from None


def _run(command: str) -> bytes:
    """Runs the command without a shell. Our own settings are removed from its environment.

    The standard error is discarded, because it could contain the secret.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UnreadableSecret(f"cannot be parsed: {error}") from None
    if not words:
        raise UnreadableSecret("names no program")
    try:
        process = subprocess.Popen(  # noqa: S603
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={k: v for k, v in os.environ.items() if not k.startswith("MANILLA_")},
            start_new_session=True,
        )
    except OSError as error:
        raise UnreadableSecret(f"cannot run {words[0]}: {error.strerror}") from None
    return _output(process, words[0])


def _output(process: "subprocess.Popen[bytes]", program: str) -> bytes:
    """Returns what the command prints. Kills the command's processes if they take too long."""
    assert process.stdout is not None
    seconds = time_limits.current.secret_command_seconds
    is_late = threading.Event()

    def stop() -> None:
        is_late.set()
        _kill(process)

    timer = threading.Timer(seconds, stop)
    timer.start()
    with process:
        try:
            output = process.stdout.read(BYTES_MAX + 1)
            if len(output) <= BYTES_MAX:
                process.wait()
        finally:
            timer.cancel()
            if process.returncode is None:
                _kill(process)
    if is_late.is_set():
        raise UnreadableSecret(f"{program} did not end within {seconds:g} s")
    value = _limited(output)
    if process.returncode != 0:
        raise UnreadableSecret(
            f"{program} ended with status {process.returncode}; run it yourself to see its errors"
        )
    return value


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Kills the command and the programs that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _limited(value: bytes) -> bytes:
    if len(value) > BYTES_MAX:
        raise UnreadableSecret(f"the value is longer than {BYTES_MAX} bytes")
    return value
