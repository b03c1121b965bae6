"""The optional header that makes a request idempotent."""

from collections.abc import Mapping

from manilla.api.refusals import ValidationFailed
from manilla.ledger.idempotency import RepeatKey

NAME = "Idempotency-Key"
LENGTH_MAX = 255


def read_repeat_key(
    headers: Mapping[bytes, bytes], endpoint: str, raw_body: bytes
) -> RepeatKey | None:
    raw = headers.get(NAME.lower().encode())
    if raw is None:
        return None
    key = raw.decode("latin-1")
    if not 1 <= len(key) <= LENGTH_MAX or not (key.isascii() and key.isprintable()):
        raise ValidationFailed(errors={NAME: f"Expected 1 to {LENGTH_MAX} printable characters."})
    return RepeatKey.of(endpoint, key, raw_body)
