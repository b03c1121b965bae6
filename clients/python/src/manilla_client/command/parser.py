"""Parses the command line and runs the command that it names."""

import argparse
import os
import sys
from collections.abc import Sequence

from manilla_client.command import listen, mcp, profile, request, trigger, verify_signature
from manilla_client.command.failure import CommandFailed
from manilla_client.errors import ManillaError

INTERRUPTED = 130  # the exit code after Ctrl-C
NO_READER = 141  # the exit code after SIGPIPE
COMMANDS = (listen, mcp, profile, request, trigger, verify_signature)


def main(words: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(words)
    try:
        code: int = given.run(given)
        sys.stdout.flush()
    except (CommandFailed, ManillaError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return _end_quietly()
    return code


def _end_quietly() -> int:
    """Exits without an error after the reader of the output, such as `head`, has exited."""
    # Without this redirect, Python would report an error when it flushes the output at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return NO_READER


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="manilla-client", description="Tools for developers.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add_to(commands)
    return parser
