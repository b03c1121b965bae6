"""`manilla verify-signature`: verifies a signature with a merchant's stored secrets.

The client library for merchants implements the verification.
"""

import re
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from manilla import development
from manilla.cli.instance import Data, InstanceRefusal, Tools, run
from manilla.cli.output import Json, print_json, print_lines
from manilla.kit.clock import iso
from manilla.kit.environment import Environment
from manilla.ledger import trx_ids
from manilla.merchants import credentials, merchants
from manilla.notify import queries

_TRX_ID = re.compile(rb"TXN[0-9A-Z]{30}")


def verify_signature(
    signature: Annotated[
        str, typer.Option("--signature", metavar="HEX", help="The value of X-Signature.")
    ],
    notification: Annotated[
        bool,
        typer.Option("--notification", help="Verify a notification. Only its body is signed."),
    ] = False,
    timestamp: Annotated[
        str | None, typer.Option("--timestamp", metavar="T", help="The value of X-Timestamp.")
    ] = None,
    method: Annotated[
        str | None, typer.Option("--method", metavar="M", help="POST or GET.")
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", metavar="PATH", help="Path and query, as sent.")
    ] = None,
    body: Annotated[
        str | None,
        typer.Option(
            "--body", metavar="FILE", help="The file with the exact body, or - for standard input."
        ),
    ] = None,
    merchant: Annotated[
        int | None,
        typer.Option(
            "--merchant",
            metavar="ID",
            min=1,
            max=trx_ids.MERCHANT_ID_MAX,
            help="Use this merchant's secret from the database.",
        ),
    ] = None,
    environment: Annotated[Environment, typer.Option("--environment")] = Environment.SANDBOX,
    secret_file: Annotated[
        Path | None,
        typer.Option(
            "--secret-file",
            metavar="FILE",
            help="A file with the secret, if no instance is running.",
        ),
    ] = None,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Verify a signature. If it does not match, report the likely mistake.

    Exits with 0 if the signature matches, otherwise with 1. The secret is never printed.
    """
    check, command = development.signature_tools()
    problem = command.wrong_options(notification, (timestamp, method, target), body)
    if problem or (merchant is None) == (secret_file is None):
        raise typer.BadParameter(problem or "use either --merchant or --secret-file.")
    others: list[Any] = []
    try:
        content = b"" if body is None else command.read_file(body, command.BODY_BYTES_MAX)
        if merchant is None:
            secrets = command.secrets_of_file(str(secret_file))
        else:
            stored = partial(_stored, check, merchant, environment, content, notification)
            secrets, others = run(data, stored)
    except command.UnreadableFile as error:
        raise InstanceRefusal(str(error)) from None
    request = None if notification else (timestamp, method, target)
    _print(check.check_signature(signature, secrets, content, request, others), as_json)


def _print(report: Any, as_json: bool) -> None:
    """Prints the report. Ends the command with exit code 1 if the signature does not match."""
    if as_json:
        print_json({**report.fields(), **report.details()})
    else:
        print_lines(report.fields())
        print(report.explanation())
    if not report.matches:
        raise typer.Exit(1)


async def _stored(
    check: Any,
    merchant_id: int,
    environment: Environment,
    body: bytes,
    is_notification: bool,
    tools: Tools,
) -> tuple[list[Any], list[Any]]:
    """Returns the merchant's secrets, and other notifications about the same transaction."""
    await merchants.get(tools.db, merchant_id)
    # Newer secrets come first. Older secrets are valid until they expire.
    records = await tools.db.records(
        """
        SELECT environment, generation, secret_sealed, expires_at FROM credential
         WHERE merchant_id = $1 ORDER BY generation DESC""",
        merchant_id,
    )
    secrets = []
    for record in records:
        its, number, ends_at = (record[n] for n in ("environment", "generation", "expires_at"))
        context = credentials.secret_context(merchant_id, Environment(its), number)
        key = tools.keyring.open(record["secret_sealed"], context)
        until = "in use" if ends_at is None else f"accepted until {iso(ends_at)}"
        mistake = None
        if its != environment:
            mistake = check.SignatureMistake("other_environment", f"The {its} secret was used.")
        elif ends_at is not None and (is_notification or ends_at <= datetime.now(UTC)):
            hint = f"An older secret was used (generation {number})."
            mistake = check.SignatureMistake("older_secret", hint)
        secrets.append(check.SigningSecret(key, f"{its}, generation {number}, {until}", mistake))
    in_use = next(secret for secret in secrets if secret.mistake is None)
    others = await _others(check, merchant_id, body, tools) if is_notification else []
    return [*secrets, *check.with_variants(in_use)[1:]], others


async def _others(check: Any, merchant_id: int, body: bytes, tools: Tools) -> list[Any]:
    """Returns the other notifications that were sent about the transaction in this body."""
    named = _TRX_ID.search(body)
    if named is None:
        return []
    sent = await queries.notifications(tools.db, merchant_id=merchant_id, trx_id=named[0].decode())
    others = []
    for each in sent:
        if each.body != body:
            at = check.first_difference(each.body, body)
            there, here = check.excerpts(at, each.body, body)
            hint = (
                f"The signature is of notification {each.id}, which differs from the body given "
                f"here: from byte {at}, `{there}` was sent, not `{here}`."
            )
            mistake = check.SignatureMistake("other_bytes", hint)
            others.append(check.SignedText(each.body, mistake))
    return others
