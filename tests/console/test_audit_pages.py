"""The audit log in the console: filters, export and verification."""

import csv
import io
from datetime import UTC, datetime, timedelta

from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.merchants import wallets
from manilla.merchants.wallets import WalletStatus
from manilla.people.roles import ConsoleRole
from manilla.services import Services
from tests.audit.tampering import tampered
from tests.console.conftest import PopulatedConsole
from tests.dashboard.merchant_dashboard import unchunked
from tests.support.client import Site, new_merchant
from tests.web.signed_in_user import SignedInUser

SANDBOX = Environment.SANDBOX


async def test_the_log_can_be_filtered_and_exported(
    services: Services, site: Site, people: dict[ConsoleRole, SignedInUser]
) -> None:
    merchant = await new_merchant(site, services.db, services.keyring)
    number, visitor = merchant.new.id, people[ConsoleRole.SUPPORT]
    for status in (WalletStatus.INACTIVE, WalletStatus.ACTIVE):
        await wallets.set_status(services.db, number, SANDBOX, "NGN", status)
    today, tomorrow = datetime.now(UTC), datetime.now(UTC) + timedelta(days=2)

    async def actions(query: str) -> list[str]:
        reply = await visitor.get(f"/audit?format=csv&merchant={number}&{query}")
        rows = csv.DictReader(io.StringIO(unchunked(reply).decode()))
        return [row["action"] for row in rows]

    assert await actions("action=wallet") == ["wallet.set_status"] * 2
    assert await actions("action=wallet.set_status&q=system") == ["wallet.set_status"] * 2
    assert await actions("action=wallet&q=nobody") == []
    assert await actions(f"action=wallet&until={today - timedelta(days=2):%Y-%m-%d}") == []
    assert await actions(f"action=wallet&since={tomorrow:%Y-%m-%d}") == []
    shown = (await visitor.get(f"/audit?merchant={number}&action=wallet")).body.decode()
    assert "Status: inactive → active" in shown
    for wrong in ("merchant=x", "merchant=999999999999999", "after=?", "since=soon"):
        assert (await visitor.get(f"/audit?{wrong}")).status == 400, wrong


async def test_the_log_has_pages(services: Services, populated: PopulatedConsole) -> None:
    number = populated.merchant.new.id
    for _ in range(30):
        for status in (WalletStatus.INACTIVE, WalletStatus.ACTIVE):
            await wallets.set_status(services.db, number, SANDBOX, "NGN", status)
    first = (await populated.administrator.get(f"/audit?merchant={number}")).body.decode()
    assert first.count('data-label="Action"') == 50
    onward = first.split(f'href="/console/audit?merchant={number}&amp;after=')[1].split('"')[0]
    later = await populated.administrator.get(f"/audit?merchant={number}&after={onward}")
    body = later.body.decode()
    assert "Merchant create" in body
    assert f'<a href="/console/merchants/{number}">Merchant {number}</a>' in body


async def test_the_log_is_verified_by_a_button(
    owner: Database, services: Services, populated: PopulatedConsole
) -> None:
    visitor = populated.people[ConsoleRole.SUPPORT]
    page = (await visitor.post("/audit/verify", {})).body.decode()
    lines = await services.db.value("SELECT count(*) FROM audit")
    assert f"Chain verified: {lines} entries, last entry at" in page
    async with tampered(owner, "UPDATE audit SET actor_name = 'nobody' WHERE id = 1"):
        broken = (await visitor.post("/audit/verify", {})).body.decode()
    assert "The chain breaks at entry 1: The entry was changed." in broken
