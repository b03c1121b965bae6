"""The command `manilla-client` for merchants' developers. It needs only an API key."""

from manilla_client.command.parser import main

__all__ = ["main"]
