"""The commands that list the cells, print the maps and check them, with two running cells."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from manilla.audit import audit
from manilla.audit.audit import AuditFilter
from manilla.cells import registry
from manilla.cells.client import OVERVIEW_PATH, ROUTES_PATH
from manilla.cells.maps import Proxy
from manilla.kit import ids
from manilla.kit.database.connections import Connection
from manilla.kit.embedded.postgres import Cluster
from manilla.kit.environment import Environment
from manilla.merchants import credentials, merchants
from manilla.merchants.credentials import NewCredentials
from manilla.merchants.merchants import NewMerchant
from manilla.settings import Settings
from tests.cells.pair import ABUJA, LAGOS, CellPair, RunningCell, running_pair
from tests.support.databases import running

pytestmark = pytest.mark.long  # the tests run the commands of two cells


@pytest.fixture
async def pair(cluster: Cluster, settings: Settings) -> AsyncIterator[CellPair]:
    async with running_pair(cluster, settings, "routing") as both:
        yield both


async def _merchant(
    cell: RunningCell,
    name: str,
    sandbox: NewCredentials | None = None,
    production: NewCredentials | None = None,
) -> NewMerchant:
    return await merchants.create(
        *(cell.services.db, cell.services.keyring),
        name=name,
        email="a@example.com",
        sandbox=sandbox,
        production=production,
    )


def _old_keys(environment: Environment) -> NewCredentials:
    """Returns keys like those of merchants from before keys contained the number."""
    prefix = credentials.key_prefix(environment)
    return NewCredentials(ids.new_key(prefix), ids.new_key(prefix), ids.new_key(prefix))


async def _move(pair: CellPair, merchant: NewMerchant) -> None:
    """Records a move of the merchant from lagos to abuja, with just enough rows to route to it."""
    async with pair.abuja.services.db.transaction() as connection:
        await _copy(connection, merchant)
        await registry.record_home(connection, merchant.id, "abuja")
    async with pair.lagos.services.db.transaction() as connection:
        await registry.record_home(connection, merchant.id, "abuja")
    await pair.look()


async def _copy(connection: Connection, merchant: NewMerchant) -> None:
    await connection.execute(
        "INSERT INTO merchant (id, name, email, status, currencies, version) OVERRIDING SYSTEM"
        " VALUE VALUES ($1, $2, 'a@example.com', 'approved', '{NGN}', 1)",
        *(merchant.id, merchant.name),
    )
    for environment, keys in (
        ("sandbox", merchant.sandbox),
        ("production", merchant.production),
    ):
        await connection.execute(
            "INSERT INTO merchant_key VALUES ($1, $2, $3)",
            *(keys.merchant_key, environment, merchant.id),
        )


async def test_list_shows_each_cell_with_its_merchants(pair: CellPair) -> None:
    ada, obi = await _merchant(pair.lagos, "Ada"), await _merchant(pair.lagos, "Obi")
    chi = await _merchant(pair.abuja, "Chi")
    assert (ada.id, obi.id, chi.id) == (LAGOS[0], LAGOS[0] + 1, ABUJA[0])
    await _move(pair, obi)
    for cell in (pair.lagos, pair.abuja):
        rows = await cell.commands.printed("list")
        assert [(row["name"], row["merchants"], row["problem"]) for row in rows] == [
            ("lagos", 1, None),
            ("abuja", 2, None),
        ]
        listed = await cell.commands.printed("list", "--merchants")
        assert [(row["cell"], row["id"], row["name"]) for row in listed] == [
            ("lagos", ada.id, "Ada"),
            ("abuja", obi.id, "Obi"),
            ("abuja", chi.id, "Chi"),
        ]


@pytest.mark.parametrize("proxy", list(Proxy))
async def test_a_printed_map_is_complete_until_a_merchant_moves(
    pair: CellPair, tmp_path: Path, proxy: Proxy
) -> None:
    await _merchant(pair.lagos, "Ada")
    obi = await _merchant(pair.lagos, "Obi")
    await _merchant(pair.abuja, "Chi")
    names = (str(tmp_path), "--for", proxy)
    await pair.lagos.commands.printed("map", "--for", proxy, "--out", str(tmp_path))
    done = await pair.lagos.commands.printed("check", *names)
    assert (done["cells"], done["merchants"], done["problems"]) == (2, 3, 0)

    await _merchant(pair.abuja, "Later")  # needs no new map
    assert (await pair.abuja.commands.printed("check", *names))["merchants"] == 4

    await _move(pair, obi)
    text = await pair.lagos.commands.refused("check", *names)
    assert f"Merchant {obi.id} is in abuja, but the maps send transaction ids and payment" in text

    await pair.abuja.commands.printed("map", "--for", proxy, "--out", str(tmp_path))
    assert (await pair.lagos.commands.printed("check", *names))["problems"] == 0


async def test_keys_without_a_number_are_in_the_map(pair: CellPair, tmp_path: Path) -> None:
    sandbox, production = (_old_keys(each) for each in Environment)
    await _merchant(pair.abuja, "Old", sandbox=sandbox, production=production)
    printed = await pair.lagos.commands.printed("map", "--for", "haproxy")
    assert f"{production.merchant_key} abuja\n" in printed["keys.map"]
    hashed = credentials.hash_api_key(sandbox.api_key).hex().upper()
    assert f"{hashed} abuja\n" in printed["api-keys.map"]

    nginx = (str(tmp_path), "--for", "nginx")
    await pair.lagos.commands.printed("map", "--for", "nginx", "--out", str(tmp_path))
    assert "rotate the key" in await pair.lagos.commands.refused("check", *nginx)


async def test_check_finds_what_is_missing_or_wrong(pair: CellPair, tmp_path: Path) -> None:
    old = _old_keys(Environment.SANDBOX)
    ada = await _merchant(pair.lagos, "Ada", sandbox=old)
    await pair.lagos.commands.printed("map", "--for", "haproxy", "--out", str(tmp_path))
    names = (str(tmp_path), "--for", "haproxy")

    async def problem(file: str, before: str, after: str) -> str:
        path = tmp_path / file
        content = path.read_text()
        assert before in content
        path.write_text(content.replace(before, after))
        text = await pair.lagos.commands.refused("check", *names)
        path.write_text(content)
        return text

    assert "to no cell" in await problem("keys.map", f"{old.merchant_key} lagos\n", "")
    assert f"Merchant {ada.id} is in lagos, but the maps send logos to abuja" in await problem(
        "decimals.map", "00000000001 lagos", "00000000001 abuja"
    )
    assert "names the cell kano" in await problem("hosts.map", "localhost abuja", "x kano")
    assert "is not an entry" in await problem("hosts.map", "localhost abuja", "localhost")
    (tmp_path / "hosts.map").unlink()
    assert "hosts.map: No such file" in await pair.lagos.commands.refused("check", *names)


async def test_check_finds_a_merchant_that_two_cells_claim(pair: CellPair, tmp_path: Path) -> None:
    ada = await _merchant(pair.lagos, "Ada")
    async with pair.abuja.services.db.transaction() as connection:
        await _copy(connection, ada)
    await pair.lagos.commands.printed("map", "--for", "haproxy", "--out", str(tmp_path))
    names = (str(tmp_path), "--for", "haproxy")
    await pair.lagos.commands.printed("check", *names)  # copied rows are not a claim
    async with pair.abuja.services.db.transaction() as connection:
        await registry.record_home(connection, ada.id, "abuja")
    await pair.look()
    text = await pair.lagos.commands.refused("check", *names)
    assert f"Merchant {ada.id} is in several cells: lagos, abuja." in text
    (tmp_path / "hosts.map").unlink()
    text = await pair.lagos.commands.refused("map", "--for", "haproxy", "--out", str(tmp_path))
    assert f"No map was written (problems: 1). Merchant {ada.id} is in several cells" in text
    assert not (tmp_path / "hosts.map").exists()


async def test_locate_corrects_where_a_cell_believes_a_merchant_to_be(
    pair: CellPair, tmp_path: Path
) -> None:
    db = pair.lagos.services.db
    await registry.add(db, "kano", "http://127.0.0.1:9", 3_000_000, 4_000_000)
    await pair.lagos.commands.printed("locate", "3000001", "abuja")
    assert await registry.moves(db) == {3_000_001: "abuja"}
    [entry] = await audit.list_entries(db, AuditFilter(action="cell.locate"))
    assert entry.subject == "merchant:3000001"
    assert entry.detail["changed"] == {"cell": {"before": "kano", "after": "abuja"}}
    assert "only for merchants" in await pair.lagos.commands.refused("locate", "7", "abuja")
    assert "only for merchants" in await pair.lagos.commands.refused("locate", "3000001", "lagos")
    assert "There is no cell" in await pair.lagos.commands.refused("locate", "3000001", "jos")


async def test_a_cell_that_does_not_respond_is_named(pair: CellPair) -> None:
    await registry.add(pair.lagos.services.db, "kano", "http://127.0.0.1:9", 3_000_000, 4_000_000)
    [row] = [each for each in await pair.lagos.commands.printed("list") if each["name"] == "kano"]
    assert "without a token" in row["problem"]
    await pair.lagos.commands.printed("set", "kano", "--token", "cell_x")
    assert "kano does not respond at http://127.0.0.1:9." in await pair.lagos.commands.refused(
        "map", "--for", "nginx"
    )


async def test_a_cell_with_another_range_is_not_read(pair: CellPair) -> None:
    token = await registry.issue_token(pair.abuja.services.db, "lagos")
    db, keyring = pair.lagos.services.db, pair.lagos.services.keyring
    await registry.add(db, "kano", pair.abuja.base_url, 3_000_000, 4_000_000)
    await registry.change(db, keyring, "kano", token=token)
    text = await pair.lagos.commands.refused("map", "--for", "nginx")
    assert "reports a name or range" in text or "does not accept the token" in text


@pytest.mark.parametrize("key", ["stolen abuja\nother", "stolen abuja;\ninclude", "#", "a;b", ""])
async def test_a_key_that_is_not_a_word_does_not_get_into_the_map(pair: CellPair, key: str) -> None:
    """The line of the map would contain entries for the merchants of other cells."""
    chi = await _merchant(pair.abuja, "Chi")
    await pair.abuja.services.db.execute(
        "INSERT INTO merchant_key SELECT $1, environment, $2 FROM merchant_key"
        " WHERE merchant_id = $3 LIMIT 1",
        *(key, await _without_keys(pair.abuja), chi.id),
    )
    text = await pair.lagos.commands.refused("map", "--for", "haproxy")
    assert text == "abuja sent a response that cannot be read."


async def _without_keys(cell: RunningCell) -> int:
    """Adds a merchant without keys, and returns its number."""
    found: int = await cell.services.db.value(
        "INSERT INTO merchant (name, email, status, currencies, version)"
        " VALUES ('Obi', 'a@example.com', 'approved', '{NGN}', 1) RETURNING id"
    )
    return found


async def test_only_a_token_of_this_cell_reads_it(pair: CellPair) -> None:
    token = await registry.issue_token(pair.lagos.services.db, "abuja")
    for path in (OVERVIEW_PATH, ROUTES_PATH):
        for headers in ({}, {"Authorization": "Bearer cell_x"}, {"Authorization": token}):
            refused = await pair.lagos.site.send("GET", path, headers)
            assert (refused.status, refused.json["error_code"]) == (401, "INVALID_TOKEN")
        headers = {"Authorization": f"Bearer {token}"}
        read = await pair.lagos.site.send("GET", path, headers)
        assert (read.status, read.json["name"]) == (200, "lagos")
        assert read.headers["cache-control"] == "no-store"
        elsewhere = await pair.abuja.site.send("GET", path, headers)
        assert elsewhere.status == 401
    for after in ("x", "-1", "9" * 30, "%C2%B2"):
        path = f"{ROUTES_PATH}?after={after}"
        assert (await pair.lagos.site.send("GET", path, headers)).status == 404


async def test_an_installation_that_is_no_cell_has_nothing_to_read(own: Settings) -> None:
    async with running(own) as (_, site):
        for path in (OVERVIEW_PATH, ROUTES_PATH):
            assert (await site.send("GET", path)).status == 404
