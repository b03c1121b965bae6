"""The command `manilla-client`: tools for merchants' developers, who need only an API key."""

from manilla_client.command.parser import main

__all__ = ["main"]
