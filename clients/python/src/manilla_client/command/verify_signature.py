"""`manilla-client verify-signature` explains why a signature does not match."""

import argparse
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from manilla_client.command import accounts
from manilla_client.command.accounts import Account
from manilla_client.command.failure import CommandFailed
from manilla_client.signature_check import (
    SignatureReport,
    SigningSecret,
    check_signature,
    with_variants,
)

BODY_BYTES_MAX = 256 * 1024
SECRET_BYTES_MAX = 4096


class UnreadableFile(CommandFailed):
    """A file that cannot be read. The message contains the file's name and the reason."""


def add_to(commands: Any) -> None:
    about = "Check a signature; if it does not match, try common mistakes and report the one found."
    parser = commands.add_parser("verify-signature", help=about, description=about)
    parser.add_argument("--signature", required=True, help="The value of X-Signature.")
    parser.add_argument(
        "--notification",
        action="store_true",
        help="Verify a notification. Only its body is signed.",
    )
    parser.add_argument("--timestamp", help="The value of X-Timestamp.")
    parser.add_argument("--method", help="POST or GET.")
    parser.add_argument("--target", help="Path and query, as sent.")
    parser.add_argument(
        "--body", metavar="FILE", help="The file with the exact body, or - for standard input."
    )
    parser.add_argument(
        "--secret-file", metavar="FILE", help="A file with the API secret, instead of a profile."
    )
    parser.add_argument("--json", action="store_true", help="Print JSON.")
    accounts.add_option(parser)
    parser.set_defaults(run=partial(_run, parser))


def _run(parser: argparse.ArgumentParser, given: argparse.Namespace) -> int:
    problem = wrong_options(
        given.notification, (given.timestamp, given.method, given.target), given.body
    )
    if problem:
        parser.error(problem)
    report = _check(given)
    if given.json:
        print(json.dumps({**report.fields(), **report.details()}))
    else:
        for name, value in report.fields().items():
            print(f"{name:<8} {'-' if value is None else value}")
        print(report.explanation())
    return 0 if report.matches else 1


def _check(given: argparse.Namespace) -> SignatureReport:
    body = b"" if given.body is None else read_file(given.body, BODY_BYTES_MAX)
    if given.secret_file is None:
        secrets = _secrets_of(accounts.choose(given.profile))
    else:
        secrets = secrets_of_file(given.secret_file)
    request = None if given.notification else (given.timestamp, given.method, given.target)
    return check_signature(given.signature, secrets, body, request)


def wrong_options(
    notification: bool, request: tuple[str | None, str | None, str | None], body: str | None
) -> str | None:
    """Returns an error message if the options contradict each other, otherwise None."""
    if notification and (any(part is not None for part in request) or body is None):
        return "a notification needs --body, and no --timestamp, --method or --target."
    if not notification and any(part is None for part in request):
        return "a request needs --timestamp, --method and --target."
    return None


def _secrets_of(account: Account) -> list[SigningSecret]:
    secret = account.credentials.api_secret.encode()
    return with_variants(SigningSecret(secret, f"of {account.name}"))


def secrets_of_file(file: str) -> list[SigningSecret]:
    secret = read_file(file, SECRET_BYTES_MAX).rstrip(b"\r\n")
    if not secret:
        raise UnreadableFile(f"{file} is empty.")
    return with_variants(SigningSecret(secret, "from the file"))


def read_file(name: str, bytes_max: int) -> bytes:
    try:
        if name == "-":
            content = sys.stdin.buffer.read(bytes_max + 1)
        else:
            with Path(name).open("rb") as file:
                content = file.read(bytes_max + 1)
    except OSError as error:
        raise UnreadableFile(f"{name} cannot be read: {error.strerror}.") from None
    if len(content) > bytes_max:
        raise UnreadableFile(f"{name} is larger than {bytes_max // 1024} KiB.")
    return content
