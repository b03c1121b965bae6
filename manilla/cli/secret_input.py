"""Values that must not stand on a command line, where everybody on the machine can read them."""

import getpass
import sys

import typer

FROM_INPUT = "-"


def revealed(name: str, given: str) -> str:
    """What was given; `-` stands for the next line of standard input."""
    return read_line(name) if given == FROM_INPUT else given


def read_line(name: str) -> str:
    line = sys.stdin.readline().rstrip("\r\n")
    if not line:
        raise typer.BadParameter("standard input has no line with a value.", param_hint=name)
    return line


def ask(name: str) -> str:
    """Asks at the terminal, without echo."""
    if not sys.stdin.isatty():
        raise typer.BadParameter(
            f"give a value, or {name}=- to read it from standard input.", param_hint=name
        )
    value = getpass.getpass(f"{name}: ")
    if not value:
        raise typer.BadParameter("a value is needed.", param_hint=name)
    return value
