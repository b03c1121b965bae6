"""The root of the command line: the table of commands, and error reporting."""

import contextlib
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from manilla import __version__
from manilla.kit.errors import reported_in_one_line


class Command(NamedTuple):
    """A command or command group, with the summary that `manilla --help` shows."""

    where: str  # the command's import path, as `module:attribute`
    summary: str

    def load(self) -> Any:
        module, attribute = self.where.split(":")
        return getattr(import_module(f"manilla.cli.{module}"), attribute)


# To start fast, the command line imports only the module of the requested command.
COMMANDS = {
    "up": Command("running.up:up", "Run Manilla on this machine."),
    "serve": Command("running.programs:serve", "Serve the API and the pages."),
    "worker": Command("running.programs:worker", "Run background jobs."),
    "simulator": Command("running.programs:simulator", "Simulate providers A, B and C."),
    "migrate": Command("running.programs:migrate", "Migrate the database to this version."),
    "check": Command("check:check", "Check the configuration of this installation."),
    "golive": Command("running.golive:golive", "Show what is left to do before going live."),
    "merchant": Command("merchant:app", "Merchants and their credentials."),
    "api-key": Command("api_key:app", "Merchants' additional API keys."),
    "wallet": Command("wallet:app", "Merchants' wallets."),
    "payment": Command("payment:app", "Payments."),
    "refund": Command("payment:refund", "Refund a payment in full or in part."),
    "refunds": Command("payment:refunds_app", "Refunds of payments."),
    "customer": Command("customers.customer:app", "Merchants' customers and their accounts."),
    "dispute": Command("dispute:app", "Disputes of payments."),
    "split": Command("payment:splits_app", "Shares of payments, and their receivers."),
    "payout": Command("payout:app", "Payouts."),
    "account": Command("account:app", "Merchants' saved payout accounts."),
    "ipn": Command("notifications.ipn:app", "Notifications to merchants (IPN)."),
    "find": Command("find:find", "Find the record that has an ID."),
    "job": Command("job:app", "Failed jobs."),
    "verify-signature": Command(
        "notifications.verify_signature:verify_signature",
        "Check a signature and explain a mismatch.",
    ),
    "case": Command("case:app", "Cases that an administrator must resolve."),
    "invoice": Command("fees.invoices:app", "Fee invoices to merchants."),
    "settle": Command("reconciling.balances:settle", "Record a provider's top-up or settlement."),
    "reconcile": Command("reconciling.balances:app", "Compare the ledger with the providers."),
    "restore-check": Command(
        "restore_check:restore_check", "Query providers about open transfers after a restore."
    ),
    "setting": Command("setting:app", "Platform settings, which take effect within a second."),
    "provider": Command("providers.provider:app", "Providers: accounts, credentials, health."),
    "rail": Command("providers.rail:app", "Rails: show delivery statistics, stop payouts."),
    "margin": Command("reconciling.margin:margin", "Fees earned and paid, and price plans to try."),
    "bank": Command("providers.bank:app", "Banks, and their codes at each provider."),
    "deposit-method": Command("providers.method:deposit_app", "Deposit methods."),
    "withdraw-method": Command("providers.method:withdraw_app", "Withdrawal methods."),
    "price-plan": Command("fees.prices:plans", "Price plans."),
    "tax": Command("fees.tax_returns:app", "Taxes on fees and transfers."),
    "cell": Command("cells.cell:app", "Cells: installations that share the merchants."),
    "approval": Command("approval:app", "Changes that need a second administrator's approval."),
    "audit": Command("audit:app", "The audit log."),
    "master-key": Command("master_key:app", "The key that encrypts all stored secrets."),
    "mail": Command("mail:app", "Emails to users and customers."),
    "user": Command("user:app", "Users of the dashboard and the console."),
    "archive": Command("proving.archive:app", "Archived months of the ledger."),
    "ledger": Command("ledger:app", "The ledger."),
    "prove": Command("proving.prove:prove", "Write a pack of files for an auditor."),
}
# Usage errors that Typer describes in terms of Python types, by the name of the error
_WRONG_VALUES = {
    "int_parsing": "{value!r} is not a whole number.",
    "int_parsing_size": "{value!r} has too many digits.",
    "greater_than_equal": "{value} is less than {ge}.",
    "less_than_equal": "{value} is greater than {le}.",
    "value_error": "{error}",
}
# The environment variable with which a shell requests completions. Typer derives its name.
COMPLETION = "_MANILLA_COMPLETE"


class _Root(TyperGroup):
    """Reports wrong arguments in one line."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        with _usage_reported_in_one_line():
            return super().make_context(*arguments, **options)

    def invoke(self, *arguments: Any) -> Any:
        with _usage_reported_in_one_line():
            return super().invoke(*arguments)


@contextlib.contextmanager
def _usage_reported_in_one_line() -> Iterator[None]:
    try:
        yield
    except typer.TyperException as error:
        _describe_wrong_value(error)
        text = " ".join(error.format_message().split())
        if text.startswith("Usage: "):  # the help of a command group, if no command is named
            raise
        end = "" if text.endswith((".", "?")) else "."
        context = getattr(error, "ctx", None)
        hint = f" See `{context.command_path} --help`." if context else ""
        print(f"manilla: {text}{end}{hint}", file=sys.stderr)
        raise typer.Exit(error.exit_code) from None


def _describe_wrong_value(error: typer.TyperException) -> None:
    validated: list[Any] = getattr(error.__cause__, "errors", list)()
    if validated and validated[0]["type"] in _WRONG_VALUES:
        wrong = validated[0]
        text = _WRONG_VALUES[wrong["type"]]
        error.message = text.format(value=wrong["input"], **wrong.get("ctx", {}))


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


def _root(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", help="The instance's data folder. Can also be given after the command."
        ),
    ] = None,
) -> None:
    """Run and operate Manilla, the merchant payments and payouts platform."""


def build(*names: str, add_completion: bool = False) -> typer.Typer:
    """Builds the Typer app with the named commands, or with all commands if none is named."""
    app = _empty(add_completion=add_completion)
    for name in names or COMMANDS:
        command, summary = COMMANDS[name].load(), COMMANDS[name].summary
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, help=summary)
        else:
            app.command(name, short_help=summary)(command)
    return app


def _overview() -> typer.Typer:
    """Builds the Typer app for --help and --version, without importing any command."""
    app = _empty(add_completion=True)
    for name, command in COMMANDS.items():
        app.command(name, help=command.summary)(_nothing)
    return app


def _nothing() -> None:
    pass


def _empty(*, add_completion: bool = False) -> typer.Typer:
    app = typer.Typer(
        name="manilla",
        cls=_Root,
        no_args_is_help=True,
        add_completion=add_completion,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_root)
    return app


def main() -> None:
    """Runs a command.

    The exit code is 0 for success, 1 for an expected error, which prints a one-line message, and 2
    for a usage error.
    """
    if COMPLETION in os.environ:
        _complete()
        return
    # Third-party text can contain characters that the terminal's encoding lacks.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    wanted = _command_name(sys.argv[1:])
    if wanted not in COMMANDS:
        _overview()()
        return
    # Hide rich while structlog is imported. Otherwise structlog would import it, which is slow.
    sys.modules["rich"] = None  # type: ignore[assignment]
    import structlog

    del sys.modules["rich"]
    # Write logs to standard error, because programs may parse standard output.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    with reported_in_one_line():
        build(wanted)()


def _complete() -> None:
    """Prints the completions of the words in the shell's command line."""
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    words = line.split()[1:]
    # The shell completes the last word, unless a space follows it.
    name = _command_name(words if line[-1:].isspace() else words[:-1])
    app = build(name, add_completion=True) if name in COMMANDS else _overview()
    app(prog_name="manilla")


def _command_name(words: list[str]) -> str:
    """Returns the command's name, which the option --data can precede, or "" if there is none."""
    length = 2 if words[:1] == ["--data"] else int(words[:1] != [] and words[0][:7] == "--data=")
    return words[length] if len(words) > length else ""
