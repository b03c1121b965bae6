"""The platform's people by role, and a merchant whose every text would like to be a script."""

import secrets
from collections.abc import AsyncIterator

import msgspec
import pytest

from manilla import app
from manilla.console import routes as console
from manilla.console.desk import ConsoleDesk
from manilla.kit.environment import Environment
from manilla.merchants import merchants
from manilla.merchants.merchants import Status
from manilla.pages import app as pages
from manilla.people.roles import ConsoleRole
from manilla.services import Services
from manilla.web.routes import Route
from tests.client import Merchant, Site
from tests.conftest import serving
from tests.console.belongings import furnish
from tests.dashboard.conftest import SCRIPT
from tests.web.visitors import Visitor, administrator

__all__ = ["SCRIPT"]


class House(msgspec.Struct, frozen=True):
    """The console's people by role, and what each parameter of a route may be."""

    merchant: Merchant
    people: dict[ConsoleRole, Visitor]
    samples: dict[str, str]

    @property
    def administrator(self) -> Visitor:
        return self.people[ConsoleRole.ADMINISTRATOR]


@pytest.fixture(scope="session")
def desk(services: Services) -> ConsoleDesk:
    return app.console_desk(services)


@pytest.fixture(scope="session")
def table(desk: ConsoleDesk) -> list[Route]:
    return console.table(desk)


# Of one module each: what another does to everybody who is signed in does not reach them.
@pytest.fixture(scope="module")
async def people(services: Services, site: Site) -> dict[ConsoleRole, Visitor]:
    host = f"{secrets.token_hex(4)}.console.example"
    return {
        role: await administrator(services, site, f"{role}@{host}", role) for role in ConsoleRole
    }


@pytest.fixture(scope="module")
async def second(services: Services, site: Site) -> Visitor:
    """Another administrator."""
    host = f"{secrets.token_hex(4)}.console.example"
    return await administrator(services, site, f"second@{host}")


@pytest.fixture(scope="module")
async def house(
    services: Services, site: Site, desk: ConsoleDesk, people: dict[ConsoleRole, Visitor]
) -> House:
    new = await merchants.create(
        services.db,
        services.keyring,
        name=f"Ada {SCRIPT}",
        email="ada@example.com",
        status=Status.APPROVED,
    )
    merchant = Merchant(site.elsewhere(), new, Environment.SANDBOX)
    return House(merchant, people, await furnish(services, desk, merchant, SCRIPT))


@pytest.fixture(scope="session")
async def production_site(services: Services, desk: ConsoleDesk) -> AsyncIterator[Site]:
    """The console as it is in production mode: second factors, and second administrators."""
    real = msgspec.structs.replace(desk, is_development=False, show=None)
    rooms = [console.build(real)]
    asgi = pages.build(services.db, services.platform, rooms, is_development=False)
    async with serving(asgi) as port:
        yield Site(port)


@pytest.fixture(scope="module")
async def in_production(
    services: Services,
    production_site: Site,
    people: dict[ConsoleRole, Visitor],
    second: Visitor,
) -> dict[str, Visitor]:
    """The same people there, signed in with a second factor, who have just shown who they are."""
    named = {**{str(role): visitor for role, visitor in people.items()}, "second": second}
    for visitor in named.values():
        await visitor.enroll(services)
        await visitor.step_up(services)
    return {
        name: msgspec.structs.replace(visitor, site=production_site)
        for name, visitor in named.items()
    }
