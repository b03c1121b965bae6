"""Reads secrets from standard input, because other users can see a command's arguments."""

import getpass
import sys

import typer

FROM_INPUT = "-"


def read_secret(name: str, given: str) -> str:
    """Returns the given value, or reads a line from standard input if the value is `-`."""
    return read_line(name) if given == FROM_INPUT else given


def read_line(name: str) -> str:
    line = sys.stdin.readline().rstrip("\r\n")
    if not line:
        raise typer.BadParameter("no value on standard input.", param_hint=name)
    return line


def ask(name: str) -> str:
    """Prompts for a secret in the terminal, without echo."""
    if not sys.stdin.isatty():
        raise typer.BadParameter(
            f"enter a value, or {name}=- to read it from standard input.", param_hint=name
        )
    value = getpass.getpass(f"{name}: ")
    if not value:
        raise typer.BadParameter("a value is required.", param_hint=name)
    return value
