"""Receivers in PHP, with and without Laravel, accept only notifications from Manilla."""

import asyncio
import contextlib
import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from manilla.notify import signing
from tests.client_library.php import (
    CLIENT,
    LARAVEL,
    readme_program,
    send,
    serving,
    skip_without_php,
)
from tests.support.client import Merchant, Site

pytestmark = pytest.mark.long

SECRET, ENDPOINT_KEY, OTHER_KEY = "test_secret", b"\xff\x00 the endpoint's key", b"another key"
BODY = (
    b'{"event":"payment","data":{"trx_id":"TXN1","amount":90071992547409.93},'
    b'"status":"completed","timestamp":%d}'
)


@pytest.fixture(autouse=True, scope="module")
def _php() -> None:
    skip_without_php()


def ipn(age_seconds: int = 0) -> tuple[bytes, dict[str, str]]:
    now = int(time.time()) - age_seconds
    body = BODY % now
    return body, signing.headers(
        SECRET.encode(), notification_id="msg_1", environment="sandbox", body=body, now=now
    )


def event(key: bytes) -> tuple[bytes, dict[str, str]]:
    now = int(time.time())
    body = (BODY % now).replace(b"{", b'{"type":"payment.success",', 1)
    return body, signing.endpoint_headers(
        [key], notification_id="msg_1", environment="sandbox", body=body, now=now
    )


def test_the_readmes_receiver_accepts_only_valid_notifications(tmp_path: Path) -> None:
    script = tmp_path / "ipn.php"
    script.write_text(
        f"<?php require '{CLIENT}/autoload.php';\n{readme_program('verifyIpn')}\necho $ipn->amount;"
    )
    with serving(script, tmp_path / "log", MANILLA_API_SECRET=SECRET) as url:
        body, headers = ipn()
        assert send(url, body, headers) == (200, b"90071992547409.93")
        assert send(url, body + b" ", headers)[0] == 401
        assert send(url, *ipn(age_seconds=400))[0] == 401
        assert send(url, body, {"Content-Type": "application/json"})[0] == 401


@contextlib.contextmanager
def laravel(folder: Path, **variables: str) -> Iterator[str]:
    """Serves a Laravel application, which discovers the service provider by itself."""
    if not LARAVEL.exists():
        pytest.skip("Laravel is not installed; Debian's package is php-laravel-framework")
    shutil.copytree(CLIENT / "tests" / "laravel", folder)
    with (folder / "routes.php").open("a") as routes:
        routes.write(readme_program("Illuminate").replace("/ipn", "/readme"))
    (folder / "bootstrap" / "cache").mkdir(parents=True)
    (folder / "vendor" / "composer").mkdir(parents=True)
    package: Any = json.loads((CLIENT / "composer.json").read_text())
    (folder / "vendor/composer/installed.json").write_text(json.dumps({"packages": [package]}))
    autoload = str(CLIENT / "autoload.php")
    log = folder / "log"
    with serving(folder / "index.php", log, MANILLA_AUTOLOAD=autoload, **variables) as url:
        yield url


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with laravel(
        tmp_path_factory.mktemp("laravel") / "app",
        MANILLA_API_SECRET=SECRET,
        MANILLA_WEBHOOK_SECRET=signing.standard_key(ENDPOINT_KEY),
        SHOP_SECRET=signing.standard_key(OTHER_KEY),
    ) as url:
        yield url


def test_the_middleware_passes_on_a_valid_notification(application: str) -> None:
    status, answered = send(f"{application}/ipn", *ipn())
    shown = {"trx_id": "TXN1", "amount": "90071992547409.93", "type": None}
    assert (status, json.loads(answered)) == (200, shown)
    assert send(f"{application}/readme", *ipn()) == (200, b"")


def test_the_middleware_passes_on_an_event(application: str) -> None:
    for path, key in (("webhooks", ENDPOINT_KEY), ("other-webhooks", OTHER_KEY)):
        status, answered = send(f"{application}/{path}", *event(key))
        assert (status, json.loads(answered)["type"]) == (200, "payment.success")


def test_the_middleware_rejects_other_requests(application: str) -> None:
    body, headers = ipn()
    for path in ("ipn", "readme"):
        assert send(f"{application}/{path}", body + b" ", headers)[0] == 401
        assert send(f"{application}/{path}", body, {"X-Other": "1"})[0] == 401
        assert send(f"{application}/{path}", *ipn(age_seconds=400))[0] == 401
    for path, key in (("webhooks", OTHER_KEY), ("other-webhooks", ENDPOINT_KEY)):
        assert send(f"{application}/{path}", *event(key))[0] == 401


def test_a_secret_that_is_not_set_accepts_nothing(application: str) -> None:
    assert send(f"{application}/unset", *event(b"unset"))[0] == 500


async def test_the_facade_calls_the_configured_client(
    site: Site, merchant: Merchant, tmp_path: Path
) -> None:
    own = merchant.credentials
    with laravel(
        tmp_path / "app",
        MANILLA_URL=f"http://127.0.0.1:{site.port}",
        MANILLA_MERCHANT_KEY=own.merchant_key,
        MANILLA_API_KEY=own.api_key,
        MANILLA_API_SECRET=own.api_secret,
    ) as url:
        status, answered = await asyncio.to_thread(send, f"{url}/site")
    assert (status, json.loads(answered)) == (200, {"status": "active"})
