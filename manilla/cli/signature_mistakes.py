"""Common mistakes in signing: each is tried, to find the one that explains a signature."""

import base64
import binascii
import hashlib
import hmac
import json
import re
from collections.abc import Iterator, Sequence
from itertools import combinations, permutations, product
from typing import Any
from urllib.parse import unquote

import msgspec

from manilla.api.authenticate import SignedRequest

DIGEST_BYTES = 32
MILLISECONDS = "millisecond_timestamp"
OTHER_TIME = "other_timestamp"
MANY = (MILLISECONDS, OTHER_TIME)  # a thousand texts, tried only with the correct secret
OTHER_TIME_SECONDS = 60
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_HEX = re.compile(r"[0-9a-fA-F]+")
_SECONDS = re.compile(r"[0-9]{1,12}")
_MILLISECONDS = re.compile(r"[0-9]{13}")
_HASHES = {32: "MD5", 40: "SHA-1", 96: "SHA-384", 128: "SHA-512"}


class Mistake(msgspec.Struct, frozen=True):
    name: str
    explanation: str


class Text(msgspec.Struct, frozen=True):
    """A text that may have been signed, and the mistake if it is the wrong one."""

    signed: bytes
    mistake: Mistake | None = None


class Secret(msgspec.Struct, frozen=True):
    """A secret that may have been used. Only its label is ever shown."""

    key: bytes
    label: str
    mistake: Mistake | None = None


class Reading(msgspec.Struct, frozen=True):
    """The digest that a signature may contain, or None if it is not 32 bytes long."""

    digest: bytes | None
    mistake: Mistake | None = None
    note: str | None = None


class Verdict(msgspec.Struct, frozen=True):
    mistakes: list[Mistake]
    is_explained: bool  # the signature matches, given these mistakes
    secret: Secret | None = None
    note: str | None = None
    text: Text | None = None  # the text that was signed, if known

    @property
    def matches(self) -> bool:
        return self.is_explained and not self.mistakes


def explain(texts: Sequence[Text], secrets: Sequence[Secret], signature: str) -> Verdict:
    """Finds the text and secret that match the signature, with the fewest mistakes.

    The first text is the correct one, and so are the secrets without a mistake.
    """
    reading = read(signature)
    if reading.digest is None:
        return Verdict([reading.mistake] if reading.mistake else [], is_explained=False)
    right = [secret for secret in secrets if secret.mistake is None]
    wrong = [secret for secret in secrets if secret.mistake is not None]
    first, others = texts[:1], texts[1:]
    few = [text for text in others if text.mistake and text.mistake.name not in MANY]
    tries = [(first, right), (others, right), (first, wrong), (few, wrong)]
    for some_texts, some_secrets in tries:
        for text, secret in product(some_texts, some_secrets):
            if hmac.compare_digest(hmac.digest(secret.key, text.signed, "sha256"), reading.digest):
                found = (text.mistake, secret.mistake, reading.mistake)
                mistakes = [mistake for mistake in found if mistake is not None]
                return Verdict(mistakes, True, secret, reading.note, text)
    return _explain_misuse(texts[0], right, reading)


def _explain_misuse(text: Text, secrets: Sequence[Secret], reading: Reading) -> Verdict:
    """Checks for the right text and secret used without HMAC, or with their roles swapped."""
    digest, found = reading.digest or b"", None
    if hmac.compare_digest(hashlib.sha256(text.signed).digest(), digest):
        hint = "This is a plain SHA-256 hash without the secret; it must be an HMAC."
        found = Verdict([Mistake("plain_hash", hint)], True, None, reading.note, text)
    for secret in secrets:
        for joined in (secret.key + text.signed, text.signed + secret.key):
            if hmac.compare_digest(hashlib.sha256(joined).digest(), digest):
                hint = (
                    "This is a plain SHA-256 hash of the secret and the text; it must be an HMAC."
                )
                found = Verdict([Mistake("plain_hash", hint)], True, secret, reading.note, text)
        if hmac.compare_digest(hmac.digest(text.signed, secret.key, "sha256"), digest):
            hint = "Key and text were swapped: the secret is the key, the string is the text."
            found = Verdict([Mistake("swapped", hint)], True, secret, reading.note, text)
    return found or Verdict([], is_explained=False)


def read(signature: str) -> Reading:
    """Parses a signature. Upper case and the prefix `sha256=` are accepted, as in the API."""
    text = signature.strip()
    notes = []
    if text.startswith("v1,"):
        return Reading(
            None,
            Mistake(
                "standard_webhooks",
                "This is the Standard Webhooks header webhook-signature, which covers id, "
                "timestamp and body. Use the value of X-Signature here.",
            ),
        )
    if text.lower().startswith("sha256="):
        text = text[len("sha256=") :]
        notes.append("The optional prefix `sha256=` was removed.")
    if _HEX.fullmatch(text) and len(text) == 2 * DIGEST_BYTES:
        if text != text.lower():
            notes.append(
                "It is in upper case. Manilla accepts both, but a text comparison needs lower case."
            )
        return Reading(bytes.fromhex(text), note=" ".join(notes) or None)
    return _read_badly(text)


def _read_badly(text: str) -> Reading:
    decoded = _decode_base64(text)
    if len(decoded) == DIGEST_BYTES:
        return Reading(decoded, Mistake("base64", "The signature is in base64; it must be hex."))
    if len(decoded) == 2 * DIGEST_BYTES and _HEX.fullmatch(decoded.decode("latin-1")):
        hint = "The signature is base64 of the hex digits; it must be the hex digits."
        return Reading(bytes.fromhex(decoded.decode()), Mistake("base64", hint))
    if _HEX.fullmatch(text) and len(text) in _HASHES:
        hint = f"{len(text)} hex digits are {_HASHES[len(text)]}; SHA-256 has 64."
        return Reading(None, Mistake("other_hash", hint))
    hint = f"The signature is not 64 hex digits: it has {len(text)} characters."
    return Reading(None, Mistake("no_signature", hint))


def _decode_base64(text: str) -> bytes:
    plain = text.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""


def request_texts(timestamp: str, method: str, target: str, body: bytes) -> list[Text]:
    """Returns the correct text first, then one for each mistake."""
    seconds = timestamp.encode(errors="replace")
    path = _path(target)

    def text(method: str = method.upper(), target: str = path, body: bytes = body) -> bytes:
        return b".".join((seconds, method.encode(), target.encode(errors="replace"), body))

    right = SignedRequest(method, path.encode(errors="replace"), body).string(seconds)
    texts = [Text(right, _time_mistake(timestamp))]
    texts += [Text(text(body=each.signed), each.mistake) for each in body_texts(body)[1:]]
    texts += [Text(text(target=other), mistake) for other, mistake in _targets(target, path)]
    hint = "The method was signed in lower case; it is signed in upper case."
    texts.append(Text(text(method=method.lower()), Mistake("lower_case_method", hint)))
    hint = "The method that was signed is not the one that was sent."
    others = [other for other in METHODS if other != method.upper()]
    texts += [Text(text(method=other), Mistake("other_method", hint)) for other in others]
    texts += _separated(seconds, method.upper().encode(), path.encode(errors="replace"), body)
    hint = "Only the body was signed, as for a notification; a request signs four parts."
    texts.append(Text(body, Mistake("body_alone", hint)))
    texts += [Text(other + right[len(seconds) :], mistake) for other, mistake in _times(timestamp)]
    return texts


def _path(target: str) -> str:
    """The path and query of a URL, as a request line has them."""
    if "://" not in target.partition("?")[0]:
        return target
    return "/" + target.partition("://")[2].partition("/")[2]


def _time_mistake(timestamp: str) -> Mistake | None:
    if _SECONDS.fullmatch(timestamp):
        return None
    if _MILLISECONDS.fullmatch(timestamp):
        return Mistake(
            MILLISECONDS,
            "X-Timestamp is in milliseconds; Manilla accepts only whole seconds.",
        )
    return Mistake("bad_timestamp", "X-Timestamp is not a Unix time in whole seconds.")


def _times(timestamp: str) -> Iterator[tuple[bytes, Mistake]]:
    hint = "The timestamp was signed in milliseconds but sent in seconds."
    if _SECONDS.fullmatch(timestamp):
        for rest in range(1000):
            yield f"{timestamp}{rest:03d}".encode(), Mistake(MILLISECONDS, hint)
        hint = "The time that was signed is not the one that was sent: read the clock once."
        for apart in range(1, OTHER_TIME_SECONDS + 1):
            for other in (int(timestamp) - apart, int(timestamp) + apart):
                yield str(other).encode(), Mistake(OTHER_TIME, hint)
    elif _MILLISECONDS.fullmatch(timestamp):
        hint = "The timestamp was signed in seconds but sent in milliseconds: send seconds."
        yield timestamp[:-3].encode(), Mistake(MILLISECONDS, hint)


def _targets(target: str, path: str) -> Iterator[tuple[str, Mistake]]:
    if target != path:
        hint = "The whole URL was signed; sign only the path and query."
        yield target, Mistake("whole_address", hint)
    bare, mark, query = path.partition("?")
    if mark:
        hint = "The query was not signed; sign it with the path and the question mark."
        yield bare, Mistake("missing_query", hint)
        hint = "The query was signed in a different order than it was sent."
        yield bare + "?" + "&".join(sorted(query.split("&"))), Mistake("sorted_query", hint)
    for prefix in ("/api/v1", "/api"):
        if path.startswith(prefix + "/"):
            hint = f"The path was signed without {prefix}; it starts with /api/v1."
            yield path.removeprefix(prefix), Mistake("path_without_api", hint)
    hint = "The path was signed without its first slash."
    yield path.removeprefix("/"), Mistake("path_without_slash", hint)
    hint = "The trailing slash of the path was signed but not sent, or sent but not signed."
    other = bare.removesuffix("/") if bare.endswith("/") else bare + "/"
    yield other + mark + query, Mistake("last_slash", hint)
    hint = "The decoded path was signed; sign it percent-encoded, as sent."
    yield unquote(path, errors="replace"), Mistake("decoded_path", hint)


def _separated(*parts: bytes) -> Iterator[Text]:
    for separator, name in ((b"\n", "newlines"), (b"", "nothing"), (b":", "colons")):
        hint = f"The parts were joined with {name}; join them with dots."
        yield Text(separator.join(parts), Mistake("other_separator", hint))
    if not parts[-1]:
        hint = "The last dot is missing; it is required even if the body is empty."
        yield Text(b".".join(parts[:-1]), Mistake("missing_last_dot", hint))
    hint = "A part is missing: sign timestamp, method, path and body."
    for fewer in (*combinations(parts, 3), (parts[0], parts[-1])):
        yield Text(b".".join(fewer), Mistake("missing_part", hint))
    hint = "The parts are in the wrong order: use timestamp, method, path, body."
    for order in permutations(parts):
        yield Text(b".".join(order), Mistake("other_order", hint))


def body_texts(body: bytes) -> list[Text]:
    """The body as given, and as programs change it between signing and sending."""
    texts = [Text(body)]
    stripped = body.rstrip(b"\r\n")
    if stripped != body:
        hint = "The signed body has no newline at its end; the body given here has one."
        texts.append(Text(stripped, Mistake("trailing_newline", hint)))
    for end in (b"\n", b"\r\n"):
        hint = "The signed body has a newline at its end; the body given here has none."
        texts.append(Text(stripped + end, Mistake("trailing_newline", hint)))
    unix = body.replace(b"\r\n", b"\n")
    hint = "The signed body and the body given here have different line endings (CRLF, LF)."
    for lines in (unix, unix.replace(b"\n", b"\r\n")):
        texts.append(Text(lines, Mistake("crlf", hint)))
        texts.append(Text(lines.rstrip(b"\r\n"), Mistake("crlf", hint)))
    hint = "Either the signed body or the body given here starts with a byte order mark."
    mark = b"\xef\xbb\xbf"
    other = body.removeprefix(mark) if body.startswith(mark) else mark + body
    texts.append(Text(other, Mistake("byte_order_mark", hint)))
    hint = "The signed body has no whitespace around it; the body given here has some."
    texts.append(Text(body.strip(), Mistake("surrounding_space", hint)))
    hint = "The body was signed in another encoding; sign it in UTF-8, as sent."
    other = body.decode(errors="replace").encode("latin-1", errors="replace")
    texts.append(Text(other, Mistake("other_encoding", hint)))
    texts += _reserialised(body)
    if body:
        hint = "An empty body was signed; sign the bytes that are sent."
        texts.append(Text(b"", Mistake("empty_body", hint)))
    return texts


# How programs serialize JSON: the words for the explanation, and the options of json.dumps.
_SPACING: dict[str, dict[str, Any]] = {
    "without spaces": {"separators": (",", ":")},
    "with spaces after commas and colons": {},
    "indented by 2": {"indent": 2},
    "indented by 4": {"indent": 4},
    "indented by a tab": {"indent": "\t"},
}
_KEYS = {"": False, "with sorted keys": True}
_LETTERS = {"": False, r"with \u escapes": True}
_SLASHES = {"": "/", r"with escaped slashes": "\\/"}
_KEPT_NUMBER = re.compile(r'"\\u0000([^"\\]*)\\u0000"')


def _reserialised(body: bytes) -> Iterator[Text]:
    """The same JSON, serialized in other ways."""
    for numbers, value in _parsed(body):
        for spacing, keys, letters, slashes in product(_SPACING, _KEYS, _LETTERS, _SLASHES):
            text = json.dumps(
                value, sort_keys=_KEYS[keys], ensure_ascii=_LETTERS[letters], **_SPACING[spacing]
            )
            text = _KEPT_NUMBER.sub(r"\1", text).replace("/", _SLASHES[slashes])
            how = ", ".join(filter(None, (spacing, keys, letters, slashes, numbers)))
            hint = (
                f"The signed body is the same JSON, serialized differently ({how}). "
                "Sign the exact bytes that are sent."
            )
            yield Text(text.encode(errors="replace"), Mistake("reserialised_json", hint))


def _parsed(body: bytes) -> Iterator[tuple[str, Any]]:
    def keep(text: str) -> str:
        return f"\0{text}\0"  # keep the digits as text; _KEPT_NUMBER removes the quotes later

    def shorten(text: str) -> int | float:
        number = float(text)
        return int(number) if number.is_integer() and abs(number) < 1e21 else number

    readings: dict[str, dict[str, Any]] = {
        "": {"parse_float": keep, "parse_int": keep},
        "with numbers as JavaScript writes them": {"parse_float": shorten},
        "with numbers as Python writes them": {},
    }
    for numbers, options in readings.items():
        try:
            yield numbers, json.loads(body, **options)
        except (ValueError, RecursionError):
            return


def secret_variants(secret: bytes) -> list[Secret]:
    """The correct secret, changed as it may be when it is copied into a program."""
    key = base64.b64encode(secret)
    variants = [
        (secret + b"\n", "secret_with_newline", "with a newline at its end"),
        (secret.removeprefix(b"test_"), "secret_without_prefix", "without its `test_`"),
        (key, "standard_webhooks_key", "in base64, as for Standard Webhooks"),
        (b"whsec_" + key, "standard_webhooks_key", "as the key of Standard Webhooks (whsec_…)"),
    ]
    return [
        Secret(
            other, "another form", Mistake(name, f"The secret was used {how}; use it unchanged.")
        )
        for other, name, how in variants
        if other != secret
    ]
