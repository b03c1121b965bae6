"""Behind HAProxy and nginx, Manilla records the client's address, whatever the client sends."""

import re
from collections.abc import AsyncIterator
from ipaddress import ip_network
from pathlib import Path

import aiohttp
import msgspec
import pytest

from manilla.app import WebApplication
from manilla.cells import maps
from manilla.cells.maps import Proxy
from manilla.services import Services
from tests.cells import proxies
from tests.cells.proxies import RunningProxy
from tests.conftest import serving
from tests.people.accounts import PASSWORD, Accounts

CLIENT = "127.0.0.2"  # the proxies connect from 127.0.0.1
FORGED = [
    ["6.6.6.6"],
    ["6.6.6.6", "6.6.6.7, 127.0.0.1"],
    ["127.0.0.1", "6.6.6.6, 127.0.0.1, ", ""],
    ["2001:db8::5, [2001:db8::6]:80, 6.6.6.6:80, unknown"],
    [" \t6.6.6.6\t ,\t127.0.0.1 ,", '::1%lo, ::ffff:127.0.0.1,"6.6.6.6"'],
    [", ".join(["6.6.6.6"] * 1000)],
]
# Other names under which a proxy, or a program behind it, could look for the client's address
OTHERS = [
    ("Forwarded", 'for=6.6.6.6;by="[2001:db8::1]:80"'),
    ("X-Real-IP", "6.6.6.6"),
    ("X_Forwarded_For", "6.6.6.6"),
    ("x-forwarded-FOR", "6.6.6.6"),
    ("X-Client-IP", "6.6.6.6"),
    ("X-Original-Forwarded-For", "6.6.6.6"),
    ("True-Client-IP", "6.6.6.6"),
    ("Connection", "keep-alive, X-Forwarded-For"),  # names headers that a proxy may remove
]


@pytest.fixture(scope="module", params=list(Proxy))
async def proxy(
    request: pytest.FixtureRequest, services: Services, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[RunningProxy]:
    kind: Proxy = request.param
    if proxies.is_missing(kind):
        pytest.skip(f"Debian's package {kind} is not installed.")
    files = maps.render(maps.build([]), kind)
    behind = msgspec.structs.replace(services, trusted_proxies=(ip_network("127.0.0.1"),))
    async with serving(WebApplication(behind)) as port:
        urls = dict.fromkeys(proxies.CELLS, f"http://127.0.0.1:{port}")
        folder: Path = tmp_path_factory.mktemp(kind)
        async with proxies.running(kind, folder, files, urls) as running:
            yield running


@pytest.fixture
async def client(proxy: RunningProxy) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(
        f"http://127.0.0.1:{proxy.port}",
        connector=aiohttp.TCPConnector(local_addr=(CLIENT, 0)),
        cookie_jar=aiohttp.CookieJar(unsafe=True),
    ) as session:
        yield session


@pytest.mark.parametrize("lines", FORGED)
async def test_a_session_has_the_clients_address(
    client: aiohttp.ClientSession, services: Services, lines: list[str]
) -> None:
    owner = await Accounts(services.db, services.keyring).owner()
    async with client.get("/dashboard/sign-in") as page:
        found = re.search(r'name="csrf" value="([0-9a-f]+)"', await page.text())
    assert found is not None
    fields = {"csrf": found[1], "email": owner.email, "password": PASSWORD}
    headers = [("X-Forwarded-For", line) for line in lines]
    await client.post("/dashboard/sign-in", data=fields, headers=[*headers, *OTHERS])
    address = await services.db.value(
        "SELECT address FROM session WHERE person_id = $1 ORDER BY id DESC LIMIT 1",
        owner.visitor.person_id,
    )
    assert address == CLIENT


async def test_the_api_limits_failures_by_the_clients_address(
    client: aiohttp.ClientSession, services: Services
) -> None:
    async def used() -> int:
        bucket = f"address:{CLIENT}"
        sql = "SELECT sum(used) FROM rate_window WHERE bucket = $1"
        return await services.db.value(sql, bucket) or 0

    before = await used()
    for number, lines in enumerate(FORGED, start=1):
        headers = [("X-Environment", "sandbox"), ("X-Merchant-Key", "x"), ("X-API-Key", "x")]
        headers += [("X-Forwarded-For", line) for line in lines]
        headers += OTHERS
        async with client.get("/api/v1/payout-methods", headers=headers) as response:
            assert response.status == 401
        assert await used() == before + number
