"""The error that ends a command."""


class CommandFailed(Exception):
    """The command cannot continue. The message gives the reason and what to do."""
