"""The error that ends a command."""


class CommandFailed(Exception):
    """The command cannot continue. The message says why, and what to do."""
