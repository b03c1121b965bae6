import asyncio
import re

import msgspec
import pytest
from playwright.async_api import Browser

from manilla.kit.database.connections import Database
from manilla.kit.embedded import postgres
from manilla.kit.embedded.postgres import NAME, Cluster
from manilla.pages import app as pages
from manilla.services import Services
from tests.checkout.page_checks import accessibility_violations
from tests.conftest import serving
from tests.support.client import Site
from tests.support.waiting import until

READ_ONLY = "default_transaction_read_only"


@pytest.mark.long
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
async def test_the_home_page_links_to_every_area(
    browser: Browser, site: Site, width: int, scheme: str
) -> None:
    page = await browser.new_page(
        viewport={"width": width, "height": 800},
        color_scheme=scheme,  # type: ignore[arg-type]
    )
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("requestfailed", lambda request: problems.append(request.url))
    await page.goto(f"http://127.0.0.1:{site.port}/")
    assert await page.title() == "Manilla"
    assert await page.get_by_label("Mode").inner_text() == (
        "Development mode: no real money moves here."
    )
    overflow = await page.evaluate("document.body.scrollWidth - window.innerWidth")
    assert overflow <= 0
    assert await accessibility_violations(page) == []
    areas = await page.locator("a").evaluate_all("all => all.map(a => a.pathname)")
    assert {"/shop", "/dashboard/", "/console/", "/docs"} <= set(areas)
    width_px = await page.locator(".front-picture").evaluate("image => image.naturalWidth")
    assert width_px > 1000
    await page.get_by_role("link", name="Demo shop", exact=False).first.click()
    assert await page.get_by_role("heading", level=1).inner_text() == "Buy something"
    assert await accessibility_violations(page) == []
    assert not problems
    await page.close()


async def test_the_home_page_names_its_mode_and_areas(site: Site) -> None:
    page = (await site.send("GET", "/")).body.decode()
    assert "Development mode: no real money moves here." in page
    areas = set(re.findall(r'<a [^>]*href="([^"]+)"', page))
    assert {"/shop", "/dashboard/", "/dashboard/sign-up", "/console/", "/docs"} <= areas
    assert page.index("For merchants") < page.index("For developers")


async def test_in_production_the_home_page_has_no_shop_and_no_console_link(
    services: Services,
) -> None:
    asgi = pages.build(msgspec.structs.replace(services, is_development=False), [])
    async with serving(asgi) as port:
        reply = await Site(port).send("GET", "/")
    assert reply.status == 200
    assert b"/dashboard/" in reply.body
    for word in (b"/shop", b"/console", b"Development mode"):
        assert word not in reply.body


async def test_pages_have_a_strict_content_security_policy(site: Site) -> None:
    reply = await site.send("GET", "/")
    policy = reply.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["x-request-id"]


@pytest.mark.parametrize("target", ["/", "/nothing", "/static/logo.svg", "/api/openapi.json"])
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
async def test_every_response_has_security_headers(site: Site, target: str, method: str) -> None:
    reply = await site.send(method, target)
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["x-request-id"]
    if reply.status == 405:
        assert "get" in reply.headers["allow"]


@pytest.mark.parametrize("target", ["/", "/readyz", "/docs", "/dashboard/", "/api/openapi.json"])
async def test_a_head_request_gets_headers_only(site: Site, target: str) -> None:
    whole, head = await site.send("GET", target), await site.send("HEAD", target)
    assert (head.status, head.body) == (whole.status, b"")
    assert head.headers["content-type"] == whole.headers["content-type"]


async def test_health_readiness_and_metrics(site: Site) -> None:
    assert (await site.send("GET", "/healthz")).json == {"status": "ok"}
    expected = {"status": "ready", "database": "ok", "writes": "ok"}
    assert (await site.send("GET", "/readyz")).json == expected
    await site.send("GET", "/api/v1/site-info")
    request = b"GET /metrics HTTP/1.1\r\nHost: m\r\nConnection: close\r\n\r\n"
    metrics = await site.send_raw(request)
    assert metrics.status == 200
    assert b'manilla_requests_total{endpoint="/api/v1/site-info",status="401"}' in metrics.body


async def test_metrics_are_not_served_through_a_proxy(site: Site) -> None:
    assert (await site.send("GET", "/metrics")).status == 404
    for word in (b"Forwarded: for=192.0.2.1", b"X-Real-IP: 192.0.2.1", b"Via: 1.1 front"):
        request = b"GET /metrics HTTP/1.1\r\nHost: m\r\nConnection: close\r\n%b\r\n\r\n" % word
        assert (await site.send_raw(request)).status == 404


@pytest.mark.parametrize(
    "target",
    [
        "/nothing",
        "/api",
        "/static/../app.py",
        "/static/none.css",
        "/static/%00",
        "/static/checkout/%0A",
        "/static/" + "x" * 5000,
    ],
)
async def test_an_unknown_page_is_not_found(site: Site, target: str) -> None:
    reply = await site.send("GET", target)
    assert (reply.status, reply.code) == (404, "NOT_FOUND")


@pytest.mark.parametrize("cause", ["read-only", "not confirmed"])
async def test_the_readiness_check_says_that_writes_fail_while_reads_work(
    cluster: Cluster, site: Site, db: Database, cause: str
) -> None:
    operator = await Database.open(cluster.url(postgres.SUPERUSER, NAME), size=2, name="operator")
    setting = "synchronous_standby_names" if cause == "not confirmed" else READ_ONLY
    value = "nobody" if cause == "not confirmed" else "on"
    is_over = asyncio.Event()
    committing = None
    try:
        await operator.execute(f"ALTER SYSTEM SET {setting} = '{value}'")
        await operator.value("SELECT pg_reload_conf()")
        if cause == "not confirmed":
            committing = asyncio.create_task(_commit_until(is_over, db))

        async def is_degraded() -> bool:
            reply = await site.send("GET", "/readyz")
            return (reply.status, reply.json.get("writes")) == (503, cause)

        await until(is_degraded)
        reads = await site.send("GET", "/readyz/reads")
        assert (reads.status, reads.json["writes"]) == (200, cause)
    finally:
        await operator.execute(f"SET {READ_ONLY} = off")
        await operator.execute(f"ALTER SYSTEM RESET {setting}")
        await operator.value("SELECT pg_reload_conf()")
        await operator.close()
        is_over.set()
        if committing is not None:
            await committing

    async def is_ready() -> bool:
        return (await site.send("GET", "/readyz")).status == 200

    await until(is_ready)


async def _commit_until(is_over: asyncio.Event, db: Database) -> None:
    """Commits repeatedly, because the server applies its new settings with a delay."""
    while not is_over.is_set():
        async with db.transaction() as connection:
            await connection.value("SELECT pg_logical_emit_message(true, 'test', 'x')")
