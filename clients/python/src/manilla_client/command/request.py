"""`manilla-client request` sends one signed request and prints the response."""

import argparse
import contextlib
import re
import sys
import time
import uuid
from typing import Any

from manilla_client import exact_json
from manilla_client.command import accounts
from manilla_client.command.accounts import Account
from manilla_client.command.failure import CommandFailed
from manilla_client.command.output import printable
from manilla_client.command.verify_signature import BODY_BYTES_MAX, read_file
from manilla_client.conversation import may_have_taken_effect
from manilla_client.transport import Answer, Failure, Request, Transport

TIMEOUT_SECONDS = 60
NO_ANSWER, REJECTED, SERVER_FAILED = 3, 4, 5  # exit codes
_METHOD = re.compile(r"[A-Za-z]{1,16}")
_TARGET = re.compile(r"/[!-~]*")
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+): *([ -~]*)")


def add_to(commands: Any) -> None:
    about = "Send a signed request, and print the response."
    codes = (
        f"Exits with 0 after a 2xx response, {REJECTED} after 4xx, {SERVER_FAILED} after 5xx, and "
        f"{NO_ANSWER} without a response. If a POST may have taken effect, prints its idempotency "
        "key."
    )
    parser = commands.add_parser("request", help=about, description=about, epilog=codes)
    parser.add_argument("method", metavar="METHOD", help="GET, POST, ...")
    parser.add_argument("target", metavar="PATH", help="Path and query: /api/v1/balance")
    parser.add_argument(
        "--data", metavar="JSON", help="The body; @FILE for a file, - for standard input."
    )
    parser.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="HEADER",
        help="An additional header, such as 'X-Sandbox-Scenario: failed'.",
    )
    accounts.add_option(parser)
    parser.set_defaults(run=_run)


def _run(given: argparse.Namespace) -> int:
    account = accounts.choose(given.profile)
    request = _signed(account, given)
    with contextlib.closing(Transport(account.url, TIMEOUT_SECONDS)) as transport:
        outcome = transport.send(request)
    if isinstance(outcome, Failure):
        print(outcome.reason, file=sys.stderr)
        code = NO_ANSWER
    else:
        _print(outcome)
        code = exit_code(outcome.status)
    key = request.headers.get("Idempotency-Key")
    has_own_key = any(_header(each)[0] == "idempotency-key" for each in given.header)
    if code and key and may_have_taken_effect(request.method, outcome, has_own_key=has_own_key):
        hint = f"To repeat it safely, add: --header 'Idempotency-Key: {key}'"
        print(hint, file=sys.stderr)
    return code


def exit_code(status: int) -> int:
    return 0 if status // 100 == 2 else SERVER_FAILED if status >= 500 else REJECTED


def _signed(account: Account, given: argparse.Namespace) -> Request:
    if not _METHOD.fullmatch(given.method):
        raise CommandFailed(f"{given.method!r} is not a method.")
    method, target, body = given.method.upper(), check_target(given.target), _body(given.data)
    headers = {"Accept": "application/json"}
    if body:
        headers["Content-Type"] = "application/json"
    if method == "POST":
        headers["Idempotency-Key"] = str(uuid.uuid4())
    signature = account.credentials.headers(int(time.time()), method, target, body)
    for name, value in map(_header, given.header):
        if name in map(str.lower, signature):
            raise CommandFailed(f"{name} is part of the signature.")
        headers = {each: headers[each] for each in headers if each.lower() != name}
        headers[name.title()] = value
    return Request(method, target, {**headers, **signature}, body)


def check_target(text: str) -> str:
    if not _TARGET.fullmatch(text):
        raise CommandFailed(f"{text!r} is not a path that begins with / and has no spaces.")
    return text


def _body(data: str | None) -> bytes:
    if data is None:
        return b""
    if data == "-" or data.startswith("@"):
        return read_file(data.removeprefix("@"), BODY_BYTES_MAX)
    return data.encode()


def _header(text: str) -> tuple[str, str]:
    parts = _HEADER.fullmatch(text)
    if parts is None:
        raise CommandFailed(f"{text!r} is not a header: 'Name: value'.")
    return parts[1].lower(), parts[2]


def _print(answer: Answer) -> None:
    """Prints the status to standard error, because standard output contains only the JSON."""
    request_id = answer.headers.get("x-request-id")
    about = f"HTTP {answer.status}" + (f", request {request_id}" if request_id else "")
    print(printable(about), file=sys.stderr)
    try:
        text = exact_json.pretty(exact_json.loads(answer.body))
    except ValueError:
        text = answer.body.decode(errors="replace")
    print(printable(text))
