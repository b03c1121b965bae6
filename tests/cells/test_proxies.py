"""HAProxy and nginx, with the shipped configuration, route every kind of request to its cell."""

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from manilla.cells import maps
from manilla.cells.client import FORWARDED
from manilla.cells.maps import Proxy
from manilla.cells.report import CellReport
from manilla.kit import ids
from manilla.kit.environment import Environment
from manilla.ledger import trx_ids
from manilla.merchants import credentials
from manilla.merchants.queries import RoutedMerchant
from manilla.payments.payment_links.link import LINK_IDS, new_slug
from tests.cells import proxies
from tests.cells.proxies import RunningProxy

LAST_IN_LAGOS = 1_000_000
# Merchant 40 has the number of lagos, and was moved to abuja. Merchant 2,000,000 moved back.
HERE, MOVED, THERE, BACK = 39, 40, 1_000_001, 2_000_000
HOMES = {HERE: "lagos", MOVED: "abuja", THERE: "abuja", BACK: "lagos"}
OLD_KEYS = {"lagos": ids.new_key(), "abuja": ids.new_key("test_")}
OLD_API_KEYS = {"lagos": ids.new_key(), "abuja": ids.new_key("test_")}


def _reports() -> list[CellReport]:
    spans = {"lagos": (1, LAST_IN_LAGOS), "abuja": (LAST_IN_LAGOS + 1, 3_000_000)}
    return [
        CellReport(
            name=cell,
            base_url=f"https://{cell}.pay.example.com",
            first_merchant=first,
            last_merchant=last,
            accounts=[f"provider{cell}", "default" if cell == "abuja" else "include"],
            moves={},
            merchants=[
                RoutedMerchant(number, "Ada", "approved", [], [])
                for number, home in HOMES.items()
                if home == cell
            ]
            + [RoutedMerchant(first + 6, "Old", "approved", [OLD_KEYS[cell]], [_hash(cell)])],
        )
        for cell, (first, last) in spans.items()
    ]


def _hash(cell: str) -> str:
    return hashlib.sha256(OLD_API_KEYS[cell].encode()).hexdigest().upper()


@pytest.fixture(scope="module", params=list(Proxy))
async def proxy(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Proxy, RunningProxy]]:
    kind: Proxy = request.param
    if proxies.is_missing(kind):
        pytest.skip(f"Debian's package {kind} is not installed.")
    files = maps.render(maps.build(_reports()), kind)
    folder: Path = tmp_path_factory.mktemp(kind)
    async with (
        proxies.small_servers() as urls,
        proxies.running(kind, folder, files, urls) as running,
    ):
        yield kind, running


async def test_every_id_of_a_merchant_leads_to_its_cell(
    proxy: tuple[Proxy, RunningProxy],
) -> None:
    _, running = proxy
    for merchant_id, home in HOMES.items():
        slug = new_slug(merchant_id)
        for path in (
            f"/checkout/{trx_ids.new(merchant_id)}/methods?expires=1&signature=x",
            f"/pay/{LINK_IDS.new(merchant_id)}",
            f"/pay/{slug}/qr.svg",
            f"/pay/{slug.upper()}",
            f"/brand/{merchant_id}/1.png",
        ):
            assert await running.get(path) == (home, path)


async def test_both_keys_of_a_merchant_lead_to_its_cell(
    proxy: tuple[Proxy, RunningProxy],
) -> None:
    _, running = proxy
    for merchant_id, home in HOMES.items():
        for environment in Environment:
            new = credentials.generate(environment, merchant_id)
            assert await running.cell("/api/v1/payouts", X_Merchant_Key=new.merchant_key) == home
            bearer = f"Bearer {new.api_key}"
            assert await running.cell("/api/initiate-payment", Authorization=bearer) == home


async def test_keys_without_a_number_lead_to_their_cell(
    proxy: tuple[Proxy, RunningProxy],
) -> None:
    kind, running = proxy
    for cell, key in OLD_KEYS.items():
        assert await running.cell("/api/v1/payouts", X_Merchant_Key=key) == cell
    if kind is Proxy.HAPROXY:
        for cell, key in OLD_API_KEYS.items():
            bearer = f"Bearer {key}"
            assert await running.cell("/api/initiate-payment", Authorization=bearer) == cell


async def test_webhooks_lead_to_the_cell_of_their_account(
    proxy: tuple[Proxy, RunningProxy],
) -> None:
    _, running = proxy
    for account, cell in {
        "providerlagos": "lagos",
        "providerabuja": "abuja",
        "default": "abuja",
        "include": "lagos",
    }.items():
        assert await running.cell(f"/webhooks/{account}") == cell


async def test_a_forwarded_webhook_leads_to_the_cell_of_its_host(
    proxy: tuple[Proxy, RunningProxy],
) -> None:
    _, running = proxy
    for cell in proxies.CELLS:
        forwarded = {FORWARDED: "1", "Host": f"{cell}.pay.example.com"}
        assert (await running.get("/webhooks/providerlagos", forwarded))[0] == cell


async def test_pages_lead_to_the_cell_of_their_host(proxy: tuple[Proxy, RunningProxy]) -> None:
    _, running = proxy
    for path in ("/console/", "/dashboard/login", "/cell/overview", "/"):
        for cell in proxies.CELLS:
            assert await running.cell(path, Host=f"{cell}.pay.example.com:8443") == cell
        assert await running.cell(path, Host="pay.example.com") == "lagos"


async def test_a_key_counts_only_in_calls_of_the_api(proxy: tuple[Proxy, RunningProxy]) -> None:
    _, running = proxy
    key = credentials.generate(Environment.PRODUCTION, THERE).merchant_key
    assert await running.cell("/console/", X_Merchant_Key=key) == "lagos"
    trx_id = trx_ids.new(HERE)
    assert await running.cell(f"/checkout/{trx_id}", X_Merchant_Key=key) == "lagos"


async def test_a_merchant_key_counts_more_than_a_bearer_token(
    proxy: tuple[Proxy, RunningProxy],
) -> None:
    _, running = proxy
    key = credentials.generate(Environment.PRODUCTION, THERE).merchant_key
    bearer = f"Bearer {OLD_API_KEYS['lagos']}"
    found = await running.cell("/api/v1/payouts", X_Merchant_Key=key, Authorization=bearer)
    assert found == "abuja"


async def test_requests_without_a_known_id_reach_the_default_cell_unchanged(
    proxy: tuple[Proxy, RunningProxy],
) -> None:
    _, running = proxy
    for path in ("/pay/", "/pay/-", "/checkout/TXN", "/webhooks/unknown", "/brand/x/1.png"):
        assert await running.get(path) == ("lagos", path)
    path = "/api/v1/verify-payment/a%20b%2Fc?x=%7E&y=a+b"
    assert await running.get(path, {"X-Merchant-Key": "unknown"}) == ("lagos", path)


async def test_metrics_are_not_served_through_the_proxy(
    proxy: tuple[Proxy, RunningProxy],
) -> None:
    _, running = proxy
    with pytest.raises(KeyError, match="X-Cell"):
        await running.get("/metrics")
