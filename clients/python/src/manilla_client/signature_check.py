"""Checks a signature, and explains a mismatch by trying the ten most common mistakes."""

import base64
import binascii
import hashlib
import hmac
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from manilla_client.reserialized import reserialized

DIGEST_BYTES = 32
TOLERANCE_SECONDS = 300  # the platform's default
EXCERPT_BYTES = 12
# Try timestamps in milliseconds only with the correct secret: each second has a thousand of them.
MILLISECONDS = "millisecond_timestamp"
UNEXPLAINED = (
    "No common mistake explains this. Compute the SHA-256 hash of the string your program signs: "
    "if it equals the hash above, your secret is wrong; if not, your string is wrong."
)
_HEX = re.compile(r"[0-9a-fA-F]+")
_SECONDS = re.compile(r"[0-9]{1,12}")
_MILLISECONDS = re.compile(r"[0-9]{13}")


@dataclass(frozen=True, slots=True)
class SignatureMistake:
    name: str
    explanation: str


@dataclass(frozen=True, slots=True)
class SignedText:
    """A text that may have been signed. `mistake` is None if the text is correct."""

    signed: bytes
    mistake: SignatureMistake | None = None


@dataclass(frozen=True, slots=True)
class SigningSecret:
    """A secret that may have been used for signing. The output shows only the secret's label."""

    key: bytes = field(repr=False)
    label: str
    mistake: SignatureMistake | None = None


@dataclass(frozen=True, slots=True)
class SignatureReport:
    text: SignedText  # the text that should have been signed
    mistakes: list[SignatureMistake]
    is_explained: bool  # True if the listed mistakes fully explain the mismatch
    secret: SigningSecret | None = None
    note: str | None = None
    signed: SignedText | None = None  # the text that was actually signed, or None if it is unknown

    @property
    def matches(self) -> bool:
        return self.is_explained and not self.mistakes

    @property
    def first_difference(self) -> int | None:
        """The position of the first byte in which the signed text differs from the correct text."""
        other = self.signed or self.text
        return None if other == self.text else first_difference(other.signed, self.text.signed)

    def fields(self) -> dict[str, Any]:
        return {
            "matches": self.matches,
            "bytes": len(self.text.signed),
            "sha256": hashlib.sha256(self.text.signed).hexdigest(),
            "secret": self.secret.label if self.secret else None,
            "note": self.note,
        }

    def details(self) -> dict[str, Any]:
        return {
            "signed_string": escaped(self.text.signed),
            "signed_hex": self.text.signed.hex(),
            "first_difference": self.first_difference,
            "mistakes": [{"name": m.name, "explanation": m.explanation} for m in self.mistakes],
        }

    def explanation(self) -> str:
        lines = ["", "String to sign:", escaped(self.text.signed), ""]
        at = self.first_difference
        if at is not None and self.signed is not None:
            there, here = excerpts(at, self.signed.signed, self.text.signed)
            lines.append(
                f"The first difference is at byte {at}: `{there}` was signed, not `{here}`."
            )
        lines += [f"{mistake.name}: {mistake.explanation}" for mistake in self.mistakes]
        if self.matches:
            lines.append("The signature matches.")
        elif self.is_explained:
            lines.append("With this fixed, the signature would match.")
        else:
            lines.append("The signature does not match." if self.mistakes else UNEXPLAINED)
        return "\n".join(lines)


def check_signature(
    signature: str,
    secrets: Sequence[SigningSecret],
    body: bytes,
    request: tuple[str, str, str] | None = None,
    others: Sequence[SignedText] = (),
) -> SignatureReport:
    """Checks the signature of a request or of a notification.

    `request` is the timestamp, the method and the target, or None for a notification. `others`
    contains additional texts that may have been signed.
    """
    if request is None:
        return explain([*body_texts(body), *others], secrets, signature)
    return explain(request_texts(*request, body), secrets, signature, note=_age_note(request[0]))


def explain(
    texts: Sequence[SignedText],
    secrets: Sequence[SigningSecret],
    signature: str,
    note: str | None = None,
) -> SignatureReport:
    """Finds the text and the secret that match the signature with the fewest mistakes.

    The first text is the correct one. A secret is correct if its `mistake` is None.
    """
    digest, unreadable, form = _read(signature)
    note = " ".join(filter(None, (form, note))) or None
    first, others = texts[:1], texts[1:]
    if digest is None:
        return SignatureReport(first[0], [unreadable] if unreadable else [], False, note=note)
    right = [secret for secret in secrets if secret.mistake is None]
    wrong = [secret for secret in secrets if secret.mistake is not None]
    few = [text for text in others if text.mistake and text.mistake.name != MILLISECONDS]
    attempts = [(first, right), (others, right), (first, wrong), (few, wrong)]
    for some_texts, some_secrets in attempts:
        for text, secret in product(some_texts, some_secrets):
            if hmac.compare_digest(hmac.digest(secret.key, text.signed, "sha256"), digest):
                found = [m for m in (text.mistake, secret.mistake, unreadable) if m is not None]
                return SignatureReport(first[0], found, True, secret, note, text)
    return SignatureReport(first[0], [], False, note=note)


def _read(signature: str) -> tuple[bytes | None, SignatureMistake | None, str]:
    """Decodes the signature. Accepts upper case and the prefix `sha256=`, like the API."""
    text, notes = signature.strip(), []
    if text.lower().startswith("sha256="):
        text = text[len("sha256=") :]
        notes.append("The optional prefix `sha256=` was removed.")
    if _HEX.fullmatch(text) and len(text) == 2 * DIGEST_BYTES:
        if text != text.lower():
            notes.append(
                "It is in upper case. Manilla accepts both, but a text comparison needs lower case."
            )
        return bytes.fromhex(text), None, " ".join(notes)
    decoded = _decode_base64(text)
    if len(decoded) == DIGEST_BYTES:
        hint = "The signature is in base64; it must be hex."
        return decoded, SignatureMistake("base64", hint), ""
    hint = f"The signature is not 64 hex digits: it has {len(text)} characters."
    return None, SignatureMistake("no_signature", hint), ""


def _decode_base64(text: str) -> bytes:
    plain = text.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""


def request_texts(timestamp: str, method: str, target: str, body: bytes) -> list[SignedText]:
    """Returns texts that may have been signed: the correct text, then one text per mistake."""
    path = _path(target)

    def text(method: str = method.upper(), target: str = path, body: bytes = body) -> bytes:
        return f"{timestamp}.{method}.{target}.".encode(errors="replace") + body

    right = text()
    texts = [SignedText(right, _time_mistake(timestamp))]
    texts += [SignedText(text(body=each.signed), each.mistake) for each in body_texts(body)[1:]]
    bare, mark, _ = path.partition("?")
    if mark:
        hint = "The query was not signed; sign it with the path and the question mark."
        texts.append(SignedText(text(target=bare), SignatureMistake("missing_query", hint)))
    for prefix in ("/api/v1", "/api"):
        if path.startswith(prefix + "/"):
            hint = f"The path was signed without {prefix}; it starts with /api/v1."
            mistake = SignatureMistake("path_without_api", hint)
            texts.append(SignedText(text(target=path.removeprefix(prefix)), mistake))
    hint = "The method was signed in lower case; it is signed in upper case."
    lower = text(method=method.lower())
    texts.append(SignedText(lower, SignatureMistake("lower_case_method", hint)))
    if not body:
        hint = "The last dot is missing; it is required even if the body is empty."
        texts.append(SignedText(right[:-1], SignatureMistake("missing_last_dot", hint)))
    return [*texts, *_times(timestamp, right)]


def _path(target: str) -> str:
    """Returns the URL's path and query string, as in the first line of an HTTP request."""
    if "://" not in target.partition("?")[0]:
        return target
    return "/" + target.partition("://")[2].partition("/")[2]


def _time_mistake(timestamp: str) -> SignatureMistake | None:
    if _SECONDS.fullmatch(timestamp):
        return None
    if _MILLISECONDS.fullmatch(timestamp):
        hint = "X-Timestamp is in milliseconds; Manilla accepts only whole seconds."
        return SignatureMistake(MILLISECONDS, hint)
    return SignatureMistake("bad_timestamp", "X-Timestamp is not a Unix time in whole seconds.")


def _times(timestamp: str, right: bytes) -> Iterator[SignedText]:
    rest = right[len(timestamp.encode(errors="replace")) :]
    if _SECONDS.fullmatch(timestamp):
        hint = "The timestamp was signed in milliseconds but sent in seconds."
        others = [f"{timestamp}{part:03d}" for part in range(1000)]
    elif _MILLISECONDS.fullmatch(timestamp):
        hint = "The timestamp was signed in seconds but sent in milliseconds: send seconds."
        others = [timestamp[:-3]]
    else:
        return
    for other in others:
        yield SignedText(other.encode() + rest, SignatureMistake(MILLISECONDS, hint))


def body_texts(body: bytes) -> list[SignedText]:
    """Returns the body and variants of it. A program may have changed the body after signing it."""
    texts = [SignedText(body)]
    stripped = body.rstrip(b"\r\n")
    if stripped != body:
        hint = "The signed body has no newline at its end; the body given here has one."
        texts.append(SignedText(stripped, SignatureMistake("trailing_newline", hint)))
    for end in (b"\n", b"\r\n"):
        hint = "The signed body has a newline at its end; the body given here has none."
        texts.append(SignedText(stripped + end, SignatureMistake("trailing_newline", hint)))
    for other, how in reserialized(body):
        hint = (
            f"The signed body is the same JSON, serialized differently ({how}). "
            "Sign the exact bytes that are sent."
        )
        texts.append(SignedText(other, SignatureMistake("reserialised_json", hint)))
    if body:
        hint = "An empty body was signed; sign the bytes that are sent."
        texts.append(SignedText(b"", SignatureMistake("empty_body", hint)))
    return texts


def with_variants(secret: SigningSecret) -> list[SigningSecret]:
    """Returns the secret, and variants of it that result from common copying mistakes."""
    hint = "The secret was used with a newline at its end; use it unchanged."
    mistake = SignatureMistake("secret_with_newline", hint)
    return [secret, SigningSecret(secret.key + b"\n", "another form", mistake)]


def first_difference(signed: bytes, given: bytes) -> int:
    pairs = enumerate(zip(signed, given, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(signed), len(given)))


def excerpts(at: int, *texts: bytes) -> list[str]:
    return [escaped(text[at : at + EXCERPT_BYTES]) for text in texts]


def escaped(text: bytes) -> str:
    """Escapes every byte that is not printable ASCII, as in a Python literal."""
    return text.decode("latin-1").encode("unicode_escape").decode("ascii")


def _age_note(timestamp: str) -> str | None:
    """Returns a note if the signature is correct, but the API would reject its timestamp."""
    if not _SECONDS.fullmatch(timestamp):
        return None
    apart = int(time.time()) - int(timestamp)
    if abs(apart) <= TOLERANCE_SECONDS:
        return None
    when = "ago" if apart > 0 else "ahead"
    return (
        f"X-Timestamp is {abs(apart)} seconds {when} by this clock. The API rejects a request that "
        f"is off by more than timestamp_tolerance_seconds ({TOLERANCE_SECONDS} by default)."
    )
