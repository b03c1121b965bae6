"""The command's root: what it can do, and how it says no."""

import sys
from typing import Annotated

import structlog
import typer

from manilla import __version__
from manilla.cli import (
    account,
    approval,
    audit,
    case,
    ipn,
    job,
    ledger,
    listen,
    master_key,
    merchant,
    method,
    payment,
    payout,
    programs,
    provider,
    restore_check,
    setting,
    settle,
    trigger,
    up,
    user,
    verify_signature,
    wallet,
)
from manilla.kit.errors import Refusal
from manilla.methods.method import Kind


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


app = typer.Typer(
    name="manilla",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("up")(up.up)
app.command("serve")(programs.serve)
app.command("worker")(programs.worker)
app.command("simulator")(programs.simulator)
app.command("migrate")(programs.migrate)
app.add_typer(merchant.app, name="merchant")
app.add_typer(wallet.app, name="wallet")
app.add_typer(payment.app, name="payment")
app.command("refund")(payment.refund)
app.add_typer(payment.refunds_app, name="refunds")
app.add_typer(payout.app, name="payout")
app.add_typer(account.app, name="account")
app.add_typer(ipn.app, name="ipn")
app.add_typer(job.app, name="job")
app.command("listen")(listen.listen)
app.command("trigger")(trigger.trigger)
app.command("verify-signature")(verify_signature.verify_signature)
app.add_typer(case.app, name="case")
app.command("settle")(settle.settle)
app.command("reconcile")(settle.reconcile)
app.command("restore-check")(restore_check.restore_check)
app.add_typer(setting.app, name="setting")
app.add_typer(provider.app, name="provider")
app.add_typer(method.commands(Kind.DEPOSIT), name="deposit-method")
app.add_typer(method.commands(Kind.WITHDRAW), name="withdraw-method")
app.add_typer(approval.app, name="approval")
app.add_typer(audit.app, name="audit")
app.add_typer(master_key.app, name="master-key")
app.add_typer(user.app, name="user")
app.add_typer(ledger.app, name="ledger")


@app.callback()
def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="The version.")
    ] = False,
) -> None:
    """Run and operate Manilla, the merchant payments and payouts platform."""


def main() -> None:
    """Exit 0, 1 for a refusal with one clear line, 2 for bad usage."""
    # What a command prints may be read by a program: what is logged on the way goes elsewhere.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    try:
        app()
    except Refusal as refusal:
        print(f"manilla: {refusal.text}", file=sys.stderr)
        raise SystemExit(1) from None
