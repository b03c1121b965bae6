import json
import subprocess
import sys
from pathlib import Path

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


NO_SPACE = """
import asyncio
from datetime import UTC, datetime
import structlog
from manilla.kit import logs

async def main():
    logs.configure("test")
    for _ in range(2):
        structlog.get_logger().info("hello")
        logs.write_request(
            timestamp=datetime.now(UTC), request_id="r", method="GET", path="/", status=200,
            error_code=None, merchant_id=None, environment=None, address="", milliseconds=1.0,
        )
        await asyncio.sleep(0)

asyncio.run(main())
"""


def test_a_program_continues_if_there_is_no_space_for_its_log() -> None:
    with Path("/dev/full").open("wb") as full:
        subprocess.run([sys.executable, "-c", NO_SPACE], stderr=full, check=True)
