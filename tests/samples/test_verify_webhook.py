"""The code samples that verify webhooks work in each installed language."""

import time
from pathlib import Path

import msgspec
import pytest

from manilla.notify import signing
from tests.samples.languages import Runner, programs
from tests.samples.test_verify_ipn import BODY, MARKED

KEY, OLD_KEY = b"\xff\x00 a key of bytes that are no text \n", b"the key before the rotation"
ID, TOLERANCE_SECONDS = "msg_01K09BW2C94Y7JS27C69ZCG4G", 300


class Case(msgspec.Struct, frozen=True):
    """The differences between the webhook that was signed and the webhook that is verified."""

    is_good: bool
    keys: tuple[bytes, ...] = (KEY,)
    age_seconds: int = 0
    secret: str = signing.standard_key(KEY)
    body: bytes | None = None
    id: str | None = None
    timestamp: str | None = None
    shift_seconds: int = 0  # added to the timestamp after it was signed
    signature: str = "{}"


CASES = {
    "good": Case(True),
    "new secret after a rotation": Case(True, keys=(KEY, OLD_KEY)),
    "old secret after a rotation": Case(True, keys=(OLD_KEY, KEY)),
    "another version beside it": Case(True, signature="v1a,AAAA {}"),
    "a few minutes old": Case(True, age_seconds=TOLERANCE_SECONDS - 60),
    "a few minutes early": Case(True, age_seconds=60 - TOLERANCE_SECONDS),
    "too old": Case(False, age_seconds=TOLERANCE_SECONDS + 60),
    "too early": Case(False, age_seconds=-TOLERANCE_SECONDS - 60),
    "another time": Case(False, shift_seconds=1),
    "a time that is no number": Case(False, timestamp="soon"),
    "another id": Case(False, id="msg_2"),
    "altered body": Case(False, body=BODY.replace(b"1500.50", b"9500.50")),
    "a newline more": Case(False, body=BODY + b"\n"),
    "another secret": Case(False, keys=(OLD_KEY,)),
    "another version": Case(False, signature="v1a{}"),
    "one letter more": Case(False, signature="{}A"),
    "no signature": Case(False, signature=""),
    "no ASCII": Case(False, signature="v1,ẹ{}", id="ẹ"),
    "empty secret": Case(False, keys=(b"",), secret="whsec_"),
    "no secret": Case(False, keys=(b"",), secret=""),
}


@pytest.fixture(scope="module", params=MARKED)
def runner(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Runner:
    return Runner(request.param, programs(tmp_path_factory))


@pytest.mark.parametrize("name", CASES)
def test_a_verifier_accepts_valid_and_rejects_invalid_webhooks(
    runner: Runner, name: str, tmp_path: Path
) -> None:
    case = CASES[name]
    (tmp_path / "body").write_bytes(case.body or BODY)
    headers = signing.endpoint_headers(
        case.keys,
        notification_id=ID,
        environment="sandbox",
        body=BODY,
        now=int(time.time()) - case.age_seconds,
    )
    run = runner.run(
        "verify_webhook",
        str(tmp_path / "body"),
        case.id or headers["webhook-id"],
        case.timestamp or str(int(headers["webhook-timestamp"]) + case.shift_seconds),
        case.signature.format(headers["webhook-signature"]),
        MANILLA_WEBHOOK_SECRET=case.secret,
    )
    assert (run.returncode, run.stderr) == (0 if case.is_good else 1, b"")
