"""Pages are compressed, unless another site could learn secrets from the compressed size."""

import gzip
from urllib.parse import urlencode

import pytest

from manilla.services import Services
from tests.dashboard.merchant_dashboard import MerchantDashboard, new_dashboard
from tests.support.client import Site

BROWSER = {"Accept-Encoding": "gzip, deflate, br", "Sec-Fetch-Site": "same-origin"}


@pytest.fixture(scope="module")
async def dashboard(services: Services, site: Site) -> MerchantDashboard:
    return await new_dashboard(services, site)


async def test_a_page_is_compressed(dashboard: MerchantDashboard, site: Site) -> None:
    plain = await dashboard.owner.get("/sandbox/payments")
    for source in ("same-origin", "none"):
        headers = {**dashboard.owner.headers(), **BROWSER, "Sec-Fetch-Site": source}
        reply = await site.send("GET", "/dashboard/sandbox/payments", headers)
        assert reply.headers["content-encoding"] == "gzip"
        assert reply.headers["vary"] == "accept-encoding, sec-fetch-site"
        assert len(reply.body) < len(plain.body) / 3
        assert b"<h1>Payments</h1>" in gzip.decompress(reply.body)


@pytest.mark.parametrize(
    "changed",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": ""},
        {"Accept-Encoding": "identity"},
    ],
)
async def test_a_request_that_another_site_can_cause_is_not_compressed(
    dashboard: MerchantDashboard, site: Site, changed: dict[str, str]
) -> None:
    headers = {**dashboard.owner.headers(), **BROWSER, **changed}
    reply = await site.send("GET", "/dashboard/sandbox/payments?q=guess", headers)
    assert "content-encoding" not in reply.headers
    assert b"<h1>Payments</h1>" in reply.body


async def test_the_answer_to_a_form_is_not_compressed(
    dashboard: MerchantDashboard, site: Site
) -> None:
    """Responses to forms are not compressed, because they can contain new keys and secrets."""
    fields = urlencode({"csrf": await dashboard.owner.csrf(), "overlap_minutes": "0"}).encode()
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    headers = {**dashboard.owner.headers(), **BROWSER, **kind}
    path = "/dashboard/sandbox/credentials/rotate"
    reply = await site.send("POST", path, headers, fields)
    assert b"API secret" in reply.body
    assert "content-encoding" not in reply.headers
