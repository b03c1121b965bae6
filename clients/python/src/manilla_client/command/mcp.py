"""`manilla-client mcp` lets a language model read the merchant's data, and nothing else."""

import argparse
from importlib.util import find_spec
from typing import Any

from manilla_client.command import accounts
from manilla_client.command.failure import CommandFailed


def add_to(commands: Any) -> None:
    about = (
        "Serve the merchant's data to a language model, read-only, on standard input and output."
    )
    details = (
        "Speaks the Model Context Protocol (MCP). Start it from your MCP client's configuration, "
        "with an API key that has only the right `read`."
    )
    parser = commands.add_parser("mcp", help=about, description=f"{about} {details}")
    accounts.add_option(parser)
    parser.set_defaults(run=_run)


def _run(given: argparse.Namespace) -> int:
    account = accounts.choose(given.profile)
    if find_spec("mcp") is None:
        raise CommandFailed(
            "The package mcp is not installed. Install manilla-client with the extra mcp: "
            "pip install 'manilla-client[mcp]'"
        )
    # The import takes long, and the other commands do not need it.
    import asyncio

    from manilla_client.command import read_only_server

    asyncio.run(read_only_server.serve(account))
    return 0
