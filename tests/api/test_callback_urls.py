"""In production mode an `ipn_url` with a private IP address is rejected immediately."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from manilla.app import WebApplication
from manilla.kit import outbound
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.services import Services
from tests.conftest import serving
from tests.payments import steps
from tests.payments.orders import order
from tests.support.client import Merchant, Site, new_merchant
from tests.support.rows import first_short

PAYOUT = {
    "payout_amount": 1000,
    "currency_code": "NGN",
    "ref_trx": "P",
    "withdraw_method_id": 0,
    "beneficiary": {},
}
PRIVATE = [
    *("127.0.0.1", "10.0.0.8", "192.168.1.1", "172.16.0.1", "169.254.169.254", "100.64.0.1"),
    *("0.0.0.0", "0", "127.1", "2130706433", "0x7f000001", "0x7f.1", "017700000001", "0177.0.0.1"),
    *("[::1]", "[::]", "[fe80::1]", "[fe80::1%25eth0]", "[fc00::1]", "[::ffff:10.0.0.1]"),
    *("[64:ff9b::7f00:1]", "[2002:7f00:1::]", "localhost", "LOCALHOST.", "shop.localhost"),
    *("127.0.0.1.", "user:pass@127.0.0.1", "shop.example@127.0.0.1", "127%2e0%2e0%2e1"),
    *("\uff11\uff12\uff17.0.0.1", "127\u30020\u30020\u30021"),
]
PUBLIC = ["shop.example", "8.8.8.8", "134744072", "[2606:4700:4700::1111]", "localhost.example"]


@pytest.fixture(scope="module")
async def live(services: Services, db: Database, keyring: Keyring) -> AsyncIterator[Merchant]:
    """A merchant that calls a web process in production mode."""
    program = msgspec.structs.replace(services, is_development=False)
    async with serving(WebApplication(program)) as port:
        yield await new_merchant(Site(port), db, keyring)


def _elsewhere(merchant: Merchant) -> Merchant:
    return msgspec.structs.replace(merchant, site=merchant.site.from_new_ip())


def _errors(reply: Any) -> tuple[int, str | None, list[str]]:
    return reply.status, reply.code, sorted(reply.json.get("errors", {}))


@pytest.mark.parametrize("host", PRIVATE)
def test_private_hosts_are_recognized_in_every_notation(host: str) -> None:
    assert outbound.has_private_host(f"http://{host}:8080/ipn")


@pytest.mark.parametrize("host", first_short(PRIVATE))
async def test_a_private_address_is_rejected_with_its_field(live: Merchant, host: str) -> None:
    caller, url = _elsewhere(live), f"http://{host}:8080/ipn"
    refused = (400, "VALIDATION_FAILED", ["ipn_url"])
    assert _errors(await steps.initiate(caller, order(ipn_url=url))) == refused
    assert _errors(await steps.initiate_legacy(caller, order(ipn_url=url))) == refused
    payout = await caller.post("/api/v1/initiate-payout", {**PAYOUT, "ipn_url": url})
    assert _errors(payout) == refused


async def test_a_private_address_is_reported_with_other_invalid_fields(live: Merchant) -> None:
    reply = await steps.initiate(live, order(ipn_url="http://localhost", payment_amount=0))
    assert _errors(reply) == (400, "VALIDATION_FAILED", ["ipn_url", "payment_amount"])


@pytest.mark.parametrize("host", PUBLIC)
async def test_public_hosts_are_accepted(live: Merchant, host: str) -> None:
    assert (await steps.initiate(live, order(ipn_url=f"https://{host}/ipn"))).status == 200


async def test_redirect_urls_may_be_private(live: Merchant) -> None:
    """A redirect URL may have a private host, because only the customer's browser opens the URL."""
    sent = order(success_redirect="http://localhost/a", cancel_redirect="http://10.0.0.1/b")
    assert (await steps.initiate(live, sent)).status == 200


async def test_development_mode_accepts_private_addresses(
    site: Site, db: Database, keyring: Keyring
) -> None:
    merchant = await new_merchant(site, db, keyring)
    reply = await steps.initiate(merchant, order(ipn_url="http://127.0.0.1:9/ipn"))
    assert reply.status == 200
