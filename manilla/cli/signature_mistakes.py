"""The usual mistakes in signing: each is made on purpose, to see which one explains a signature."""

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
MANY = (MILLISECONDS, OTHER_TIME)  # a thousand texts, which are tried with the right secret
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
    """What may have been signed, and what is wrong with signing it."""

    signed: bytes
    mistake: Mistake | None = None


class Secret(msgspec.Struct, frozen=True):
    """What may have been signed with. Only `told` is ever shown."""

    key: bytes
    told: str
    mistake: Mistake | None = None


class Reading(msgspec.Struct, frozen=True):
    """What a signature may stand for; None: nothing that is 32 bytes long."""

    digest: bytes | None
    mistake: Mistake | None = None
    note: str | None = None


class Verdict(msgspec.Struct, frozen=True):
    mistakes: list[Mistake]
    is_explained: bool  # with these mistakes, or with none, it matches
    secret: Secret | None = None
    note: str | None = None
    text: Text | None = None  # what was signed, as far as it is known

    @property
    def matches(self) -> bool:
        return self.is_explained and not self.mistakes


def explain(texts: Sequence[Text], secrets: Sequence[Secret], signature: str) -> Verdict:
    """The first text and secret of each are the right ones; fewer mistakes are likelier."""
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
    """The right text and secret, but no HMAC of the one with the other."""
    digest, found = reading.digest or b"", None
    if hmac.compare_digest(hashlib.sha256(text.signed).digest(), digest):
        told = "It is a plain SHA-256, made without the secret; it must be an HMAC."
        found = Verdict([Mistake("plain_hash", told)], True, None, reading.note, text)
    for secret in secrets:
        for joined in (secret.key + text.signed, text.signed + secret.key):
            if hmac.compare_digest(hashlib.sha256(joined).digest(), digest):
                told = "It is a plain SHA-256 of secret and text together; it must be an HMAC."
                found = Verdict([Mistake("plain_hash", told)], True, secret, reading.note, text)
        if hmac.compare_digest(hmac.digest(text.signed, secret.key, "sha256"), digest):
            told = "Key and text were swapped: the secret is the key, the string the text."
            found = Verdict([Mistake("swapped", told)], True, secret, reading.note, text)
    return found or Verdict([], is_explained=False)


def read(signature: str) -> Reading:
    """Prefix and case are as Manilla takes them; other forms are mistakes."""
    text = signature.strip()
    notes = []
    if text.startswith("v1,"):
        return Reading(
            None,
            Mistake(
                "standard_webhooks",
                "This is a webhook-signature, of Standard Webhooks: it covers id, timestamp and "
                "body, and is for a library. X-Signature is the header that is checked here.",
            ),
        )
    if text.lower().startswith("sha256="):
        text = text[len("sha256=") :]
        notes.append("The prefix `sha256=` may be there; the signature is what follows.")
    if _HEX.fullmatch(text) and len(text) == 2 * DIGEST_BYTES:
        if text != text.lower():
            notes.append(
                "It is in upper case. Manilla takes both; who compares text writes lower case."
            )
        return Reading(bytes.fromhex(text), note=" ".join(notes) or None)
    return _read_badly(text)


def _read_badly(text: str) -> Reading:
    decoded = _decode_base64(text)
    if len(decoded) == DIGEST_BYTES:
        return Reading(decoded, Mistake("base64", "The signature is in base64; it must be hex."))
    if len(decoded) == 2 * DIGEST_BYTES and _HEX.fullmatch(decoded.decode("latin-1")):
        told = "The signature is base64 of the hex digits; it must be the hex digits themselves."
        return Reading(bytes.fromhex(decoded.decode()), Mistake("base64", told))
    if _HEX.fullmatch(text) and len(text) in _HASHES:
        told = f"{len(text)} hex digits are of {_HASHES[len(text)]}; a signature is of SHA-256: 64."
        return Reading(None, Mistake("other_hash", told))
    told = f"The signature is not 64 hex digits: it has {len(text)} characters."
    return Reading(None, Mistake("no_signature", told))


def _decode_base64(text: str) -> bytes:
    plain = text.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""


def request_texts(timestamp: str, method: str, target: str, body: bytes) -> list[Text]:
    """The right text first; then one for each mistake."""
    seconds = timestamp.encode(errors="replace")
    path = _path(target)

    def text(method: str = method.upper(), target: str = path, body: bytes = body) -> bytes:
        return b".".join((seconds, method.encode(), target.encode(errors="replace"), body))

    right = SignedRequest(method, path.encode(errors="replace"), body).string(seconds)
    texts = [Text(right, _time_mistake(timestamp))]
    texts += [Text(text(body=each.signed), each.mistake) for each in body_texts(body)[1:]]
    texts += [Text(text(target=other), mistake) for other, mistake in _targets(target, path)]
    told = "The method was signed in lower case; it is signed in upper case."
    texts.append(Text(text(method=method.lower()), Mistake("lower_case_method", told)))
    told = "Another method was signed than was sent."
    others = [other for other in METHODS if other != method.upper()]
    texts += [Text(text(method=other), Mistake("other_method", told)) for other in others]
    texts += _separated(seconds, method.upper().encode(), path.encode(errors="replace"), body)
    told = "The body alone was signed, as in a notification; a request signs four parts."
    texts.append(Text(body, Mistake("body_alone", told)))
    texts += [Text(other + right[len(seconds) :], mistake) for other, mistake in _times(timestamp)]
    return texts


def _path(target: str) -> str:
    """Of a whole address what a request line carries."""
    if "://" not in target.partition("?")[0]:
        return target
    return "/" + target.partition("://")[2].partition("/")[2]


def _time_mistake(timestamp: str) -> Mistake | None:
    if _SECONDS.fullmatch(timestamp):
        return None
    if _MILLISECONDS.fullmatch(timestamp):
        return Mistake(
            MILLISECONDS,
            "X-Timestamp is in milliseconds; Manilla takes whole seconds alone.",
        )
    return Mistake("bad_timestamp", "X-Timestamp is not a Unix time in whole seconds.")


def _times(timestamp: str) -> Iterator[tuple[bytes, Mistake]]:
    told = "The timestamp was signed in milliseconds, and sent in seconds."
    if _SECONDS.fullmatch(timestamp):
        for rest in range(1000):
            yield f"{timestamp}{rest:03d}".encode(), Mistake(MILLISECONDS, told)
        told = "Another time was signed than was sent: look at the clock once for both."
        for apart in range(1, OTHER_TIME_SECONDS + 1):
            for other in (int(timestamp) - apart, int(timestamp) + apart):
                yield str(other).encode(), Mistake(OTHER_TIME, told)
    elif _MILLISECONDS.fullmatch(timestamp):
        told = "The timestamp was signed in seconds, and sent in milliseconds: send seconds."
        yield timestamp[:-3].encode(), Mistake(MILLISECONDS, told)


def _targets(target: str, path: str) -> Iterator[tuple[str, Mistake]]:
    if target != path:
        told = "The whole address was signed; sign the path and query alone."
        yield target, Mistake("whole_address", told)
    bare, mark, query = path.partition("?")
    if mark:
        told = "The query was not signed; it belongs to the path, with its question mark."
        yield bare, Mistake("missing_query", told)
        told = "The query was signed in another order than it was sent in."
        yield bare + "?" + "&".join(sorted(query.split("&"))), Mistake("sorted_query", told)
    for prefix in ("/api/v1", "/api"):
        if path.startswith(prefix + "/"):
            told = f"The path was signed without {prefix}; it begins with /api/v1."
            yield path.removeprefix(prefix), Mistake("path_without_api", told)
    told = "The path was signed without its first slash."
    yield path.removeprefix("/"), Mistake("path_without_slash", told)
    told = "The path was signed with a slash at its end that was not sent, or without one that was."
    other = bare.removesuffix("/") if bare.endswith("/") else bare + "/"
    yield other + mark + query, Mistake("last_slash", told)
    told = "The path was signed decoded; sign it percent-encoded, as it is sent."
    yield unquote(path, errors="replace"), Mistake("decoded_path", told)


def _separated(*parts: bytes) -> Iterator[Text]:
    for separator, name in ((b"\n", "newlines"), (b"", "nothing"), (b":", "colons")):
        told = f"The parts were put together with {name} between them; it is dots."
        yield Text(separator.join(parts), Mistake("other_separator", told))
    if not parts[-1]:
        told = "The last dot is missing: it is there although the body is empty."
        yield Text(b".".join(parts[:-1]), Mistake("missing_last_dot", told))
    told = "A part is missing: timestamp, method, path and body are signed, all four."
    for fewer in (*combinations(parts, 3), (parts[0], parts[-1])):
        yield Text(b".".join(fewer), Mistake("missing_part", told))
    told = "The parts were put together in another order: timestamp, method, path, body it is."
    for order in permutations(parts):
        yield Text(b".".join(order), Mistake("other_order", told))


def body_texts(body: bytes) -> list[Text]:
    """The body as it is, and as programs change it between signing and sending."""
    texts = [Text(body)]
    stripped = body.rstrip(b"\r\n")
    if stripped != body:
        told = "The body that was signed has no newline at its end; the one given here has."
        texts.append(Text(stripped, Mistake("trailing_newline", told)))
    for end in (b"\n", b"\r\n"):
        told = "The body that was signed has a newline at its end; the one given here has not."
        texts.append(Text(stripped + end, Mistake("trailing_newline", told)))
    unix = body.replace(b"\r\n", b"\n")
    told = "The body that was signed has other line ends than the one given here (CRLF, LF)."
    for lines in (unix, unix.replace(b"\n", b"\r\n")):
        texts.append(Text(lines, Mistake("crlf", told)))
        texts.append(Text(lines.rstrip(b"\r\n"), Mistake("crlf", told)))
    told = "The body that was signed begins with a byte order mark, or the one given here does."
    mark = b"\xef\xbb\xbf"
    other = body.removeprefix(mark) if body.startswith(mark) else mark + body
    texts.append(Text(other, Mistake("byte_order_mark", told)))
    told = "The body that was signed has no space around it; the one given here has."
    texts.append(Text(body.strip(), Mistake("surrounding_space", told)))
    told = "The body was signed in another encoding; it is UTF-8, as it is sent."
    other = body.decode(errors="replace").encode("latin-1", errors="replace")
    texts.append(Text(other, Mistake("other_encoding", told)))
    texts += _reserialised(body)
    if body:
        told = "No body was signed at all; sign the bytes that are sent."
        texts.append(Text(b"", Mistake("empty_body", told)))
    return texts


# How programs write JSON: each a part of the explanation, and what it does.
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
    """The same JSON, written in other ways."""
    for numbers, value in _parsed(body):
        for spacing, keys, letters, slashes in product(_SPACING, _KEYS, _LETTERS, _SLASHES):
            text = json.dumps(
                value, sort_keys=_KEYS[keys], ensure_ascii=_LETTERS[letters], **_SPACING[spacing]
            )
            text = _KEPT_NUMBER.sub(r"\1", text).replace("/", _SLASHES[slashes])
            how = ", ".join(filter(None, (spacing, keys, letters, slashes, numbers)))
            told = (
                f"The body that was signed is the same JSON, but written anew ({how}). "
                "Use the very bytes that go over the wire."
            )
            yield Text(text.encode(errors="replace"), Mistake("reserialised_json", told))


def _parsed(body: bytes) -> Iterator[tuple[str, Any]]:
    def keep(text: str) -> str:
        return f"\0{text}\0"  # as text, so that no digit changes; taken out of its quotes later

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
    """The right secret, as it goes wrong between a screen and a program."""
    key = base64.b64encode(secret)
    variants = [
        (secret + b"\n", "secret_with_newline", "with a newline at its end"),
        (secret.removeprefix(b"test_"), "secret_without_prefix", "without its `test_`"),
        (key, "standard_webhooks_key", "in base64, as for Standard Webhooks"),
        (b"whsec_" + key, "standard_webhooks_key", "as the key of Standard Webhooks (whsec_…)"),
    ]
    return [
        Secret(other, "another form", Mistake(name, f"The secret was used {how}; it is used bare."))
        for other, name, how in variants
        if other != secret
    ]
