import json
import subprocess
import sys

from manilla.kit.logs import HIDDEN, redact


def test_secrets_are_hidden_at_any_depth() -> None:
    planted = {
        "merchant": 7,
        "headers": {"X-Signature": "sig", "X-API-Key": "key", "Accept": "json"},
        "rows": [{"api_secret": "s", "bvn": "22222222222", "account_number": "0123456789"}],
        "password": "p",
    }
    assert redact(planted) == {
        "merchant": 7,
        "headers": {"X-Signature": HIDDEN, "X-API-Key": HIDDEN, "Accept": "json"},
        "rows": [{"api_secret": HIDDEN, "bvn": HIDDEN, "account_number": "******6789"}],
        "password": HIDDEN,
    }


def test_a_line_is_one_json_object_without_the_secret() -> None:
    program = (
        "import logging, structlog; from manilla.kit import logs; logs.configure('test');"
        "structlog.get_logger().info('hello', api_secret='planted', merchant_id=3);"
        "logging.getLogger('library').warning('from %s', 'outside')"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    first, second = map(json.loads, run.stderr.splitlines())
    assert (first["event"], first["merchant_id"], first["program"]) == ("hello", 3, "test")
    assert b"planted" not in run.stderr
    assert (second["event"], second["level"]) == ("from outside", "warning")
