"""Parses the optional headers Idempotency-Key and X-Sandbox-Scenario."""

from collections.abc import Mapping

from manilla.api.endpoint import Call
from manilla.api.refusals import ValidationFailed
from manilla.ledger.idempotency import RepeatKey
from manilla.ledger.transactions import Scenario

IDEMPOTENCY_KEY = "Idempotency-Key"
KEY_LENGTH_MAX = 255
SANDBOX_SCENARIO = "X-Sandbox-Scenario"


def read_repeat_key(
    headers: Mapping[bytes, bytes], endpoint: str, raw_body: bytes
) -> RepeatKey | None:
    raw = headers.get(b"idempotency-key")
    if raw is None:
        return None
    key = raw.decode("latin-1")
    if not 1 <= len(key) <= KEY_LENGTH_MAX or not (key.isascii() and key.isprintable()):
        expected = f"Expected 1 to {KEY_LENGTH_MAX} printable characters."
        raise ValidationFailed(errors={IDEMPOTENCY_KEY: expected})
    return RepeatKey.of(endpoint, key, raw_body)


def read_scenario(call: Call) -> Scenario | None:
    raw = call.headers.get(b"x-sandbox-scenario")
    if raw is None:
        return None
    problem = "Expected `success`, `failed` or `pending`."
    if not call.caller.is_sandbox:
        # Reject the header instead of ignoring it, because the caller expects a test.
        problem = "This header works in the sandbox only."
    elif raw.decode("latin-1") in set(Scenario):
        return Scenario(raw.decode("latin-1"))
    raise ValidationFailed(errors={SANDBOX_SCENARIO: problem})
