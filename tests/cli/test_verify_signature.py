"""`manilla verify-signature` explains why a signature does not match."""

import base64
import hashlib
import hmac
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from manilla_client import command
from manilla_client import signature_check as mistakes
from manilla_client.signature_check import SigningSecret

from tests.cli.receiver import Shop, opened
from tests.cli.triggering import trigger
from tests.support.command import manilla
from tests.support.instance import MANILLA, Instance, InstanceFolder
from tests.support.rows import first_short
from tests.support.signing import sign


@pytest.fixture(scope="module")
def instance(idle: InstanceFolder) -> InstanceFolder:
    return idle


@pytest.fixture(scope="module")
def merchant(instance: InstanceFolder) -> Any:
    return instance.command("merchant", "create", "Ada Stores", "ada@example.com")


@pytest.fixture
def shop() -> Iterator[Shop]:
    with opened() as shop:
        yield shop


TIMESTAMP, METHOD = "1767323045", "POST"
TARGET = "/api/v1/initiate-payment?b=2&a=1"
BODY = '{\n  "payment_amount": 1500.50,\n  "url": "https://shop.example/",\n  "name": "Ọlá"\n}'
COMPACT = '{"payment_amount":1500.50,"url":"https://shop.example/","name":"Ọlá"}'
JAVASCRIPT = '{"payment_amount":1500.5,"url":"https://shop.example/","name":"Ọlá"}'
PHP = '{"payment_amount":1500.5,"url":"https:\\/\\/shop.example\\/","name":"\\u1eccl\\u00e1"}'

Signed = Callable[[str], str]


def signed(
    timestamp: str = TIMESTAMP,
    method: str = METHOD,
    target: str = TARGET,
    body: str = BODY,
) -> Signed:
    return lambda secret: sign(secret, timestamp, method, target, body.encode())


def in_base64(secret: str) -> str:
    return base64.b64encode(bytes.fromhex(signed()(secret))).decode()


REQUEST_MISTAKES: dict[str, tuple[str, Signed]] = {
    "signed with a newline at its end": ("trailing_newline", signed(body=BODY + "\n")),
    "rewritten": ("reserialised_json", signed(body=COMPACT)),
    "rewritten by JavaScript": ("reserialised_json", signed(body=JAVASCRIPT)),
    "rewritten by PHP": ("reserialised_json", signed(body=PHP)),
    "no body": ("empty_body", signed(body="")),
    "no query": ("missing_query", signed(target="/api/v1/initiate-payment")),
    "no /api": ("path_without_api", signed(target=TARGET.removeprefix("/api"))),
    "no /api/v1": ("path_without_api", signed(target=TARGET.removeprefix("/api/v1"))),
    "milliseconds": ("millisecond_timestamp", signed(timestamp=TIMESTAMP + "678")),
    "lower case": ("lower_case_method", signed(method="post")),
    "base64": ("base64", in_base64),
    "secret with newline": ("secret_with_newline", lambda secret: signed()(secret + "\n")),
}


def verify(
    instance: InstanceFolder,
    merchant: Any,
    file: Path,
    given: str,
    *words: str,
    timestamp: str = TIMESTAMP,
) -> tuple[int, Any]:
    request = ("--timestamp", timestamp, "--method", METHOD, "--target", TARGET)
    return _verify(instance, merchant, *request, "--body", str(file), "--signature", given, *words)


def _verify(instance: InstanceFolder, merchant: Any, *words: str) -> tuple[int, Any]:
    whose = ("--merchant", str(merchant["id"]), "--data", str(instance.folder), "--json")
    run = manilla("verify-signature", *words, *whose)
    assert run.stderr == ""
    for keys in (merchant["sandbox"], merchant["production"]):
        assert keys["api_secret"] not in run.stdout
    return run.returncode, json.loads(run.stdout)


def named(found: Any) -> list[str]:
    return [mistake["name"] for mistake in found["mistakes"]]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "body.json"
    file.write_bytes(BODY.encode())
    return file


def test_a_matching_signature_exits_0(instance: InstanceFolder, merchant: Any, file: Path) -> None:
    code, found = verify(instance, merchant, file, signed()(merchant["sandbox"]["api_secret"]))
    string = f"{TIMESTAMP}.{METHOD}.{TARGET}.{BODY}".encode()
    assert (code, found["matches"], found["mistakes"]) == (0, True, [])
    assert found["bytes"] == len(string)
    assert found["sha256"] == hashlib.sha256(string).hexdigest()
    assert found["signed_string"].encode().decode("unicode_escape").encode("latin-1") == string
    assert (found["signed_hex"], found["first_difference"]) == (string.hex(), None)
    assert found["secret"] == "sandbox, generation 1, in use"
    # The signature is correct, but its timestamp is too old for the API.
    assert "seconds ago" in found["note"]


@pytest.mark.parametrize("name", first_short(REQUEST_MISTAKES))
def test_a_signing_mistake_is_named(
    instance: InstanceFolder, merchant: Any, file: Path, name: str
) -> None:
    expected, make = REQUEST_MISTAKES[name]
    code, found = verify(instance, merchant, file, make(merchant["sandbox"]["api_secret"]))
    assert (code, found["matches"], named(found)) == (1, False, [expected])


def test_accepted_variants_are_explained(
    instance: InstanceFolder, merchant: Any, file: Path
) -> None:
    good = signed()(merchant["sandbox"]["api_secret"])
    code, found = verify(instance, merchant, file, "sha256=" + good.upper())
    assert (code, found["matches"]) == (0, True)
    assert "sha256=" in found["note"]
    assert "upper case" in found["note"]


def test_a_timestamp_in_milliseconds_is_rejected(
    instance: InstanceFolder, merchant: Any, file: Path
) -> None:
    sent = TIMESTAMP + "678"
    for timestamp in (sent, TIMESTAMP):
        given = signed(timestamp=timestamp)(merchant["sandbox"]["api_secret"])
        code, found = verify(instance, merchant, file, given, timestamp=sent)
        assert (code, named(found)) == (1, ["millisecond_timestamp"])


def test_the_other_environments_secret_is_named_even_with_another_mistake(
    instance: InstanceFolder, merchant: Any, file: Path
) -> None:
    secret = merchant["production"]["api_secret"]
    code, found = verify(instance, merchant, file, signed()(secret))
    assert (code, named(found)) == (1, ["other_environment"])
    code, found = verify(instance, merchant, file, signed(body=COMPACT)(secret))
    assert (code, named(found)) == (1, ["reserialised_json", "other_environment"])
    code, found = verify(instance, merchant, file, signed()(secret), "--environment", "production")
    assert code == 0


def test_an_older_secret_is_named_or_accepted_while_valid(
    instance: InstanceFolder, file: Path
) -> None:
    merchant = instance.command("merchant", "create", "Rotated", "r@example.com")
    rotate = ("merchant", "rotate", str(merchant["id"]), "--environment", "sandbox")
    first = merchant["sandbox"]["api_secret"]
    second = instance.command(*rotate)["api_secret"]
    third = instance.command(*rotate, "--overlap-minutes", "5")["api_secret"]
    code, found = verify(instance, merchant, file, signed()(first))
    assert (code, named(found)) == (1, ["older_secret"])
    code, found = verify(instance, merchant, file, signed()(second))
    assert code == 0
    assert found["secret"].startswith("sandbox, generation 2, accepted until ")
    code, found = verify(instance, merchant, file, signed()(third))
    assert (code, found["secret"]) == (0, "sandbox, generation 3, in use")
    # Notifications are signed only with the newest secret.
    given = hmac.new(second.encode(), BODY.encode(), hashlib.sha256).hexdigest()
    code, found = _verify(
        instance, merchant, "--notification", "--body", str(file), "--signature", given
    )
    assert (code, named(found)) == (1, ["older_secret"])


def test_an_unexplained_mismatch_exits_1_and_says_how_to_continue(
    instance: InstanceFolder, merchant: Any, file: Path
) -> None:
    code, found = verify(instance, merchant, file, "0" * 64)
    assert (code, found["mistakes"], found["secret"]) == (1, [], None)
    for_people = manilla(
        *("verify-signature", "--timestamp", TIMESTAMP, "--method", METHOD, "--target", TARGET),
        *("--body", str(file), "--signature", "0" * 64, "--merchant", str(merchant["id"])),
        *("--data", str(instance.folder)),
    )
    assert for_people.returncode == 1
    assert "No common mistake explains this." in for_people.stdout
    assert f"{TIMESTAMP}.{METHOD}.{TARGET}.{{\\n" in for_people.stdout


@pytest.mark.parametrize("given", ["", "abc", "0" * 40, "0" * 128, "v1,AAAA", "sha256=", "ẹ" * 64])
def test_a_malformed_signature_is_explained(given: str) -> None:
    verdict = mistakes.explain(mistakes.body_texts(b"{}"), [SigningSecret(b"secret", "")], given)
    assert (verdict.matches, len(verdict.mistakes)) == (False, 1)


@pytest.mark.parametrize(
    "body", [b"", b"\n", b"\xff\x00", b"[" * 100_000, b'{"a":1,"a":NaN}', b'"\\ud800"', b"1e999"]
)
def test_every_kind_of_body_can_be_explained(body: bytes) -> None:
    texts = mistakes.request_texts("1", "POST", "http://shop.example?/%ff", body)
    assert not mistakes.explain(texts, [SigningSecret(b"secret", "")], "0" * 64).is_explained


def _printed(body: bytes) -> bytes:
    """Returns the JSON body as a log might show it: indented, but with unchanged digits."""
    text = json.dumps(json.loads(body), indent=4)
    return text.replace("1000.0", "1000.00").replace(" 0.0,", " 0.00,").encode()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Instance]:
    instance = Instance(tmp_path / "data", "--no-demo").wait()
    yield instance
    assert instance.stop() == 0


@pytest.mark.long
def test_a_notifications_signature_is_explained(
    running: Instance, shop: Shop, tmp_path: Path
) -> None:
    instance = running
    merchant = instance.command("merchant", "create", "Ada Stores", "ada@example.com")
    made = trigger(instance, merchant, "payment.success", shop.url())
    [received] = shop.wait_for(made["notification_id"])
    given = received.headers["x-signature"]
    changed = {
        "as it came": (received.body, []),
        "saved by an editor": (received.body + b"\n", ["trailing_newline"]),
        "printed in another form": (_printed(received.body), ["reserialised_json"]),
        "without its digits": (received.body.replace(b"1000.00", b"1000"), ["other_bytes"]),
    }
    for body, expected in changed.values():
        (tmp_path / "body").write_bytes(body)
        words = ("--notification", "--body", str(tmp_path / "body"), "--signature", given)
        code, found = _verify(instance, merchant, *words)
        assert (code, named(found)) == (1 if expected else 0, expected)
    assert made["notification_id"] in found["mistakes"][0]["explanation"]
    assert "`.00," in found["mistakes"][0]["explanation"]


def test_a_secret_in_a_file_needs_no_instance(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("test_of_a_file\n")
    words = (
        *("verify-signature", "--timestamp", TIMESTAMP, "--method", "GET"),
        *("--target", "/api/v1/site-info", "--secret-file", str(tmp_path / "secret")),
        *("--data", str(tmp_path / "nothing")),
    )
    good = sign("test_of_a_file", TIMESTAMP, "GET", "/api/v1/site-info", b"")
    run = manilla(*words, "--signature", good)
    assert (run.returncode, run.stderr) == (0, "")
    assert "The signature matches." in run.stdout
    assert "test_of_a_file" not in run.stdout
    no_dot = hmac.new(
        b"test_of_a_file", f"{TIMESTAMP}.GET./api/v1/site-info".encode(), hashlib.sha256
    ).hexdigest()
    run = manilla(*words, "--signature", no_dot)
    assert (run.returncode, "missing_last_dot: " in run.stdout) == (1, True)
    assert "The first difference is at byte 32: `` was signed, not `.`." in run.stdout


def test_a_body_can_be_read_from_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("test_of_a_file")
    given = hmac.new(b"test_of_a_file", BODY.encode(), hashlib.sha256).hexdigest()
    run = subprocess.run(
        [
            *(*MANILLA, "verify-signature", "--notification", "--body", "-"),
            *("--signature", given, "--secret-file", str(tmp_path / "secret")),
        ],
        input=BODY.encode(),
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("missing", ["body", "secret"])
def test_an_unreadable_file_is_an_error(tmp_path: Path, missing: str) -> None:
    files = {"body": tmp_path / "body", "secret": tmp_path / "secret"}
    for name, path in files.items():
        if name != missing:
            path.write_text("text")
    run = manilla(
        *("verify-signature", "--notification", "--body", str(files["body"])),
        *("--signature", "0" * 64, "--secret-file", str(files["secret"])),
    )
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.endswith("cannot be read: No such file or directory.\n")


def test_the_signature_vectors_match(project: Path) -> None:
    for vector in json.loads((project / "clients/contract/signatures.json").read_bytes()):
        texts = mistakes.request_texts(
            *(vector["timestamp"], vector["method"], vector["path"], vector["body"].encode())
        )
        assert texts[0].signed == vector["signed_string"].encode()
        secret = SigningSecret(vector["secret"].encode(), "of the vectors")
        assert mistakes.explain(texts, [secret], vector["signature"]).matches


SIGNED = ("verify-signature", "--signature", "00")
REQUEST = ("--timestamp", "1", "--method", "GET", "--target", "/api/v1/site-info")


@pytest.mark.parametrize(
    "words",
    [
        ("verify-signature", *REQUEST, "--merchant", "1"),
        (*SIGNED, *REQUEST),
        (*SIGNED, *REQUEST, "--merchant", "1", "--secret-file", "x"),
        (*SIGNED, "--method", "GET", "--merchant", "1"),
        (*SIGNED, "--notification", "--merchant", "1"),
        (*SIGNED, "--notification", "--body", "-", "--method", "GET", "--merchant", "1"),
    ],
)
def test_bad_usage_is_exit_2(words: tuple[str, ...]) -> None:
    assert manilla(*words).returncode == 2


def test_the_clients_own_command_needs_no_platform(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("test_of_a_file\n")
    words = ["verify-signature", "--secret-file", str(tmp_path / "secret"), *REQUEST[2:]]
    words += ["--timestamp", TIMESTAMP]
    good = sign("test_of_a_file", TIMESTAMP, "GET", "/api/v1/site-info", b"")
    assert command.main([*words, "--signature", good]) == 0
    assert capsys.readouterr().out.endswith("The signature matches.\n")
    in_base64 = base64.b64encode(bytes.fromhex(good)).decode()
    assert command.main([*words, "--signature", in_base64, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["matches"], named(found)) == (False, ["base64"])
    variables = {
        "MANILLA_URL": "http://127.0.0.1:1",
        "MANILLA_MERCHANT_KEY": "test_key",
        "MANILLA_API_KEY": "test_api",
        "MANILLA_API_SECRET": "test_of_a_file",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    without_file = [words[0], *words[3:], "--signature", good]
    assert command.main(without_file) == 0
    assert command.main([*words[:2], str(tmp_path / "none"), *words[3:], "--signature", good]) == 1
    with pytest.raises(SystemExit, match="2"):
        command.main([*words[:3], "--signature", good])
