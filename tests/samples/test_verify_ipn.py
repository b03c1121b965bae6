"""The code samples that verify notifications work in each installed language."""

import base64
import hashlib
import hmac
from pathlib import Path

import msgspec
import pytest

from manilla.notify import signing
from tests.samples.languages import LANGUAGES, Runner, programs

SECRET = "test_8agexnprjqkqk1mb4syas8cq43q2qe0m"
BODY = (
    '{"event":"payment","data":{"trx_id":"TXN1","amount":1500.50,"description":"Owó ₦43 🎉\\n"},'
    '"message":"Payment Completed","status":"completed","timestamp":1794722351}'
).encode()

# The client library's verifier is tested separately, because it makes additional checks.
VERIFIERS = [language for language in LANGUAGES if language != "python-client"]
MARKED = [
    pytest.param(language, marks=() if language == "python" else pytest.mark.long)
    for language in VERIFIERS
]


def signature(body: bytes = BODY, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


class Case(msgspec.Struct, frozen=True):
    is_good: bool
    body: bytes = BODY
    signature: str = signature()
    secret: str = SECRET


CASES = {
    "good": Case(True),
    "prefixed": Case(True, signature="sha256=" + signature()),
    "empty body": Case(True, body=b"", signature=signature(b"")),
    "bytes that are no text": Case(True, body=b"\xff\x00\n", signature=signature(b"\xff\x00\n")),
    "wrong": Case(False, signature="0" * 64),
    "wrong in its last digit": Case(False, signature=signature()[:-1] + "g"),
    "of another secret": Case(False, signature=signature(secret=SECRET + "x")),
    "altered body": Case(False, body=BODY.replace(b"1500.50", b"9500.50")),
    "a newline more": Case(False, body=BODY + b"\n"),
    "empty": Case(False, signature=""),
    "nothing but the prefix": Case(False, signature="sha256="),
    "prefixed twice": Case(False, signature="sha256=sha256=" + signature()),
    "too short": Case(False, signature=signature()[:-1]),
    "too long": Case(False, signature=signature() + "0"),
    "no ASCII": Case(False, signature="ẹ" * 64),
    "empty secret": Case(False, signature=signature(secret=""), secret=""),
}


@pytest.fixture(scope="module", params=MARKED)
def runner(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Runner:
    return Runner(request.param, programs(tmp_path_factory))


@pytest.mark.parametrize("name", CASES)
def test_a_verifier_accepts_valid_and_rejects_invalid_signatures(
    runner: Runner, name: str, tmp_path: Path
) -> None:
    case = CASES[name]
    (tmp_path / "body").write_bytes(case.body)
    run = runner.run(
        "verify_ipn", str(tmp_path / "body"), case.signature, MANILLA_API_SECRET=case.secret
    )
    assert (run.returncode, run.stderr) == (0 if case.is_good else 1, b"")


def test_the_verifiers_accept_what_we_send() -> None:
    headers = signing.headers(
        SECRET.encode(), notification_id="msg_1", environment="sandbox", body=BODY, now=1794722351
    )
    assert headers["X-Signature"] == signature()
    # The Standard Webhooks specification defines this signature.
    prefix, _, key = signing.standard_key(SECRET.encode()).partition("_")
    assert prefix == "whsec"
    signed = b".".join((b"msg_1", headers["webhook-timestamp"].encode(), BODY))
    expected = hmac.new(base64.b64decode(key, validate=True), signed, hashlib.sha256).digest()
    version, _, given = headers["webhook-signature"].partition(",")
    assert (version, base64.b64decode(given, validate=True)) == ("v1", expected)
