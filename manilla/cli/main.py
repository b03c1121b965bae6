"""The command's root: what it can do, and how it says no."""

import sys
from importlib import import_module
from typing import Annotated

import structlog
import typer

from manilla import __version__
from manilla.kit.errors import Refusal

# Where each command is, or a group of them: only what is asked for is loaded.
COMMANDS = {
    "up": "up:up",
    "serve": "programs:serve",
    "worker": "programs:worker",
    "simulator": "programs:simulator",
    "migrate": "programs:migrate",
    "merchant": "merchant:app",
    "wallet": "wallet:app",
    "payment": "payment:app",
    "refund": "payment:refund",
    "refunds": "payment:refunds_app",
    "payout": "payout:app",
    "account": "account:app",
    "ipn": "ipn:app",
    "find": "find:find",
    "job": "job:app",
    "listen": "listen:listen",
    "trigger": "trigger:trigger",
    "verify-signature": "verify_signature:verify_signature",
    "case": "case:app",
    "settle": "settle:settle",
    "reconcile": "settle:reconcile",
    "restore-check": "restore_check:restore_check",
    "setting": "setting:app",
    "provider": "provider:app",
    "deposit-method": "method:deposit_app",
    "withdraw-method": "method:withdraw_app",
    "approval": "approval:app",
    "audit": "audit:app",
    "master-key": "master_key:app",
    "user": "user:app",
    "ledger": "ledger:app",
}


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="The version.")
    ] = False,
) -> None:
    """Run and operate Manilla, the merchant payments and payouts platform."""


def build(wanted: str | None = None) -> typer.Typer:
    """With this command alone, where there is one of that name; else with all of them."""
    app = typer.Typer(
        name="manilla",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_root)
    for name in [wanted] if wanted in COMMANDS else COMMANDS:
        assert name is not None
        module, attribute = COMMANDS[name].split(":")
        command = getattr(import_module(f"manilla.cli.{module}"), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return app


def main() -> None:
    """Exit 0, 1 for a refusal with one clear line, 2 for bad usage."""
    # What a command prints may be read by a program: what is logged on the way goes elsewhere.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    try:
        build(sys.argv[1] if len(sys.argv) > 1 else None)()
    except Refusal as refusal:
        print(f"manilla: {refusal.text}", file=sys.stderr)
        raise SystemExit(1) from None
