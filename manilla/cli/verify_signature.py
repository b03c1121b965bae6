"""`manilla verify-signature`: checks a signature, and explains a mismatch."""

import hashlib
import re
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from manilla.cli.instance import Data, InstanceRefusal, Tools, run
from manilla.cli.output import Json, print_fields, print_json
from manilla.cli.signature_mistakes import (
    Mistake,
    Secret,
    Text,
    Verdict,
    body_texts,
    explain,
    request_texts,
    secret_variants,
)
from manilla.kit.clock import iso
from manilla.kit.environment import Environment
from manilla.ledger import trx_ids
from manilla.merchants import credentials, merchants
from manilla.notify import queries
from manilla.platform.settings import PlatformSettings

BODY_BYTES_MAX = 256 * 1024
SECRET_BYTES_MAX = 4096
EXCERPT_BYTES = 12

UNEXPLAINED = (
    "No common mistake explains this. Compute the SHA-256 hash of the string your program signs: "
    "if it equals the hash above, your secret is wrong; if not, your string is wrong."
)

_TRX_ID = re.compile(rb"TXN[0-9A-Z]{30}")


class _Given(msgspec.Struct, frozen=True):
    """A signature, and the texts it may have been computed over."""

    signature: str
    body: bytes
    texts: list[Text]  # the correct text first
    is_notification: bool
    timestamp: str | None  # of a request; None for a notification


def verify_signature(
    signature: Annotated[
        str, typer.Option("--signature", metavar="HEX", help="The value of X-Signature.")
    ],
    notification: Annotated[
        bool,
        typer.Option("--notification", help="The signature of a notification: of the body alone."),
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
        typer.Option("--body", metavar="FILE", help="The exact body; - for standard input."),
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
            "--secret-file", metavar="FILE", help="The secret, if no instance is running."
        ),
    ] = None,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Check a signature; if it does not match, try common mistakes and report the one found.

    Exits 0 if the signature matches, otherwise 1. The secret is never printed.
    """
    _check_options(notification, (timestamp, method, target), body)
    if (merchant is None) == (secret_file is None):
        raise typer.BadParameter("use either --merchant or --secret-file.")
    content = b"" if body is None else _read(body, BODY_BYTES_MAX)
    texts = (
        body_texts(content)
        if notification
        else request_texts(timestamp or "", method or "", target or "", content)
    )
    given = _Given(signature, content, texts, notification, timestamp)
    if secret_file is not None:
        verdict = explain(texts, _secrets_of_file(secret_file), signature)
    else:
        assert merchant is not None
        verdict = _by_database(data, given, merchant, environment)
    _print(given, verdict, as_json)
    if not verdict.matches:
        raise typer.Exit(1)


def _check_options(
    notification: bool, request: tuple[str | None, str | None, str | None], body: str | None
) -> None:
    if notification and (any(part is not None for part in request) or body is None):
        raise typer.BadParameter(
            "a notification needs --body, and no --timestamp, --method or --target."
        )
    if not notification and any(part is None for part in request):
        raise typer.BadParameter("a request needs --timestamp, --method and --target.")


def _by_database(
    data: Path | None, given: _Given, merchant_id: int, environment: Environment
) -> Verdict:
    async def command(tools: Tools) -> tuple[list[Secret], list[Text]]:
        await merchants.get(tools.db, merchant_id)
        secrets = await _secrets_of(tools, merchant_id, environment, given.is_notification)
        sent = await _sent(tools, merchant_id, given.body) if given.is_notification else []
        return secrets, sent

    secrets, sent = run(data, command)
    return explain([*given.texts, *sent], secrets, given.signature)


async def _secrets_of(
    tools: Tools, merchant_id: int, environment: Environment, is_notification: bool
) -> list[Secret]:
    """Accepted secrets first: a request may use an older secret until it expires."""
    records = await tools.db.records(
        """
        SELECT environment, generation, secret_sealed, expires_at FROM credential
         WHERE merchant_id = $1 ORDER BY generation DESC""",
        merchant_id,
    )
    secrets: list[Secret] = []
    for record in records:
        its, number, ends_at = (record[n] for n in ("environment", "generation", "expires_at"))
        context = credentials.secret_context(merchant_id, Environment(its), number)
        key = tools.keyring.open(record["secret_sealed"], context)
        label = f"{its}, generation {number}"
        label += ", in use" if ends_at is None else f", accepted until {iso(ends_at)}"
        mistake = None
        if its != environment:
            mistake = Mistake("other_environment", f"The {its} secret was used.")
        elif ends_at is not None and (is_notification or ends_at <= datetime.now(UTC)):
            explanation = f"An older secret was used (generation {number})."
            mistake = Mistake("older_secret", explanation)
        secrets.append(Secret(key, label, mistake))
    in_use = next(secret for secret in secrets if secret.mistake is None)
    return [*secrets, *secret_variants(in_use.key)]


async def _sent(tools: Tools, merchant_id: int, body: bytes) -> list[Text]:
    """Other bodies that were sent to the merchant for the transaction the body names."""
    found = _TRX_ID.search(body)
    if found is None:
        return []
    notifications = await queries.notifications(
        tools.db, merchant_id=merchant_id, trx_id=found[0].decode()
    )
    return [
        Text(each.body, Mistake("other_bytes", _difference(each.id, each.body, body)))
        for each in notifications
        if each.body != body
    ]


def _first_difference(signed: bytes, given: bytes) -> int:
    pairs = enumerate(zip(signed, given, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(signed), len(given)))


def _difference(notification_id: str, sent: bytes, given: bytes) -> str:
    at = _first_difference(sent, given)
    there, here = (escaped(text[at : at + EXCERPT_BYTES]) for text in (sent, given))
    return (
        f"The signature is of notification {notification_id}, which differs from the body given "
        f"here: from byte {at}, `{there}` was sent, not `{here}`."
    )


def _secrets_of_file(file: Path) -> list[Secret]:
    secret = _read(str(file), SECRET_BYTES_MAX).rstrip(b"\r\n")
    if not secret:
        raise InstanceRefusal(f"{file} is empty.")
    return [Secret(secret, "from the file"), *secret_variants(secret)]


def _read(name: str, bytes_max: int) -> bytes:
    try:
        if name == "-":
            content = sys.stdin.buffer.read(bytes_max + 1)
        else:
            with Path(name).open("rb") as file:
                content = file.read(bytes_max + 1)
    except OSError as error:
        raise InstanceRefusal(f"{name} cannot be read: {error.strerror}.") from None
    if len(content) > bytes_max:
        raise InstanceRefusal(f"{name} is larger than {bytes_max // 1024} KiB.")
    return content


def _print(given: _Given, verdict: Verdict, as_json: bool) -> None:
    signed = given.texts[0].signed
    other = verdict.text.signed if verdict.text else signed
    at = None if other == signed else _first_difference(other, signed)
    fields: dict[str, Any] = {
        "matches": verdict.matches,
        "bytes": len(signed),
        "sha256": hashlib.sha256(signed).hexdigest(),
        "secret": verdict.secret.label if verdict.secret else None,
        "note": " ".join(filter(None, (verdict.note, _age_note(given.timestamp)))) or None,
    }
    if as_json:
        text = escaped(signed)
        found = {"first_difference": at, "mistakes": verdict.mistakes}
        print_json({**fields, "signed_string": text, "signed_hex": signed.hex(), **found})
        return
    print_fields(fields, as_json=False)
    print(f"\nString to sign:\n{escaped(signed)}\n")
    if at is not None:
        there, here = (escaped(text[at : at + EXCERPT_BYTES]) for text in (other, signed))
        print(f"The first difference is at byte {at}: `{there}` was signed, not `{here}`.")
    for mistake in verdict.mistakes:
        print(f"{mistake.name}: {mistake.explanation}")
    if verdict.matches:
        print("The signature matches.")
    elif verdict.is_explained:
        print("With this fixed, the signature would match.")
    else:
        print(UNEXPLAINED if not verdict.mistakes else "The signature does not match.")


def _age_note(timestamp: str | None) -> str | None:
    """A signature that is too old matches, but the API still rejects the request."""
    if timestamp is None or not re.fullmatch(r"[0-9]{1,12}", timestamp):
        return None
    apart = int(time.time()) - int(timestamp)
    tolerance = PlatformSettings().timestamp_tolerance_seconds
    if abs(apart) <= tolerance:
        return None
    when = "ago" if apart > 0 else "ahead"
    return (
        f"X-Timestamp is {abs(apart)} seconds {when} by this clock. The API rejects a request that "
        f"is off by more than timestamp_tolerance_seconds ({tolerance} by default)."
    )


def escaped(text: bytes) -> str:
    """Escapes every byte that is not printable ASCII, as in a Python literal."""
    return text.decode("latin-1").encode("unicode_escape").decode("ascii")
