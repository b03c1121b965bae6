"""A provider's page helps with the setup: a checklist, the next step, a guide and clear errors."""

import re
from collections.abc import AsyncIterator

import pytest

from manilla.banks import learning
from manilla.kit.database.connections import Database
from manilla.kit.http_client.errors import (
    ConnectTimeout,
    Disconnected,
    NotConnected,
    UnknownHost,
)
from manilla.methods import catalogue
from manilla.methods.catalogue import MethodUpdate
from manilla.methods.method import MethodKind
from manilla.people.roles import ConsoleRole
from manilla.providers import credentials, wire
from manilla.providers.kinds import KINDS
from manilla.services import Services
from tests.console.conftest import PopulatedConsole
from tests.web import markup
from tests.web.signed_in_user import SignedInUser

AT = "/providers/paystack"
CODE = "paystack-ngn"


@pytest.fixture
async def visitor(
    services: Services, populated: PopulatedConsole, owner: Database
) -> AsyncIterator[SignedInUser]:
    user = populated.people[ConsoleRole.ADMINISTRATOR]
    await user.step_up(services)
    yield user
    await credentials.clear(services.db, "paystack")
    unchanged = MethodUpdate(active=False)
    await catalogue.change(services.db, MethodKind.DEPOSIT, CODE, unchanged)
    await owner.execute("DELETE FROM webhook WHERE provider = 'paystack'")
    await owner.execute("DELETE FROM provider_bank WHERE provider = 'paystack'")
    await services.rails.load()


async def state(visitor: SignedInUser) -> tuple[str, str]:
    """Returns the number of completed setup steps, and the next step."""
    page = (await visitor.get(AT)).body.decode()
    assert not markup.problems(page)
    found = re.search(r"(\d of \d) steps done(?:\. Next: ([a-z ]+))?", page)
    assert found is not None
    return found[1], found[2] or ""


async def test_the_page_shows_the_next_step_until_the_provider_can_be_used(
    services: Services, visitor: SignedInUser, owner: Database
) -> None:
    db = services.db
    assert await state(visitor) == ("0 of 5", "credentials")
    await credentials.change(db, services.keyring, "paystack", {"secret_key": "sk_live_1"})
    assert await state(visitor) == ("1 of 5", "webhook")
    await owner.execute(
        "INSERT INTO webhook (merchant_id, provider, digest, kind, reference, body)"
        " VALUES (0, 'paystack', 'x', 'charge', 'other', 'x')"
    )
    assert await state(visitor) == ("2 of 5", "connection")
    await learning.learn(db, "paystack", [("044", "Access Bank")])
    assert await state(visitor) == ("3 of 5", "methods")
    await catalogue.change(db, MethodKind.DEPOSIT, CODE, MethodUpdate(active=True))
    assert await state(visitor) == ("4 of 5", "first payment")


async def test_each_real_provider_has_a_guide_on_the_console(visitor: SignedInUser) -> None:
    for name, kind in KINDS.items():
        reply = await visitor.get(f"/providers/{name}/guide")
        page = (await visitor.get(f"/providers/{name}")).body.decode()
        assert (f"/console/providers/{name}/guide" in page) is (kind.guide is not None)
        assert reply.status == (404 if kind.guide is None else 200), name
        if kind.guide is not None:
            shown = reply.body.decode()
            assert not markup.problems(shown)
            assert re.search('<h2 id="set[a-z-]*">', shown)
            assert ".md" not in shown
            assert "<th></th>" not in shown
            assert "<pre>" not in shown, "a keyboard user cannot scroll a <pre> element"
    assert sum(kind.guide is not None for kind in KINDS.values()) == 4


async def test_a_test_account_is_marked_by_its_key_and_a_switch_promises_nothing_about_money(
    services: Services, visitor: SignedInUser
) -> None:
    given = {"secret_key": "sk_live_1", "sandbox": "true"}
    await credentials.change(services.db, services.keyring, "paystack", given)
    page = (await visitor.get(AT)).body.decode()
    assert "no real money moves through" not in page.lower()
    assert "Its API key can still be a live key." in page
    test = {"secret_key": "sk_test_1", "sandbox": ""}
    await credentials.change(services.db, services.keyring, "paystack", test)
    assert "This is a test account: no real money moves" in (await visitor.get(AT)).body.decode()


def test_a_failed_connection_is_described_without_names_of_exceptions() -> None:
    host = "no.invalid"
    errors = (
        UnknownHost(host, OSError(-2, "Name or service not known")),
        NotConnected(host, ConnectionRefusedError(111, "refused")),
        ConnectTimeout(host, TimeoutError()),
        Disconnected(),
    )
    assert [wire._failed(error).reason for error in errors] == [
        "connection failed: the host name no.invalid is not known",
        "connection failed: Connection refused",
        "connection failed: the host did not accept the connection in time",
        "connection failed: the connection was closed without a response",
    ]
