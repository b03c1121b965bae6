"""Console users with each role, and a merchant. Every text in its data contains a script."""

import secrets
from collections.abc import AsyncIterator

import msgspec
import pytest

from manilla.console import routes as console
from manilla.kit.environment import Environment
from manilla.merchants import merchants
from manilla.merchants.merchants import MerchantStatus
from manilla.pages import app as pages
from manilla.people.roles import ConsoleRole
from manilla.services import Services
from manilla.web.routes import Route
from tests.conftest import serving
from tests.console.sample_data import create_sample_data
from tests.dashboard.conftest import SCRIPT
from tests.support.client import Merchant, Site
from tests.web.signed_in_user import SignedInUser, administrator

__all__ = ["SCRIPT"]


class PopulatedConsole(msgspec.Struct, frozen=True):
    """Console users with each role, and a sample value for each route parameter."""

    merchant: Merchant
    people: dict[ConsoleRole, SignedInUser]
    samples: dict[str, str]

    @property
    def administrator(self) -> SignedInUser:
        return self.people[ConsoleRole.ADMINISTRATOR]


@pytest.fixture(scope="session")
def table() -> list[Route]:
    return console.ROUTES


# Each module creates its own users, so that a test that ends all sessions affects no other module.
@pytest.fixture(scope="module")
async def people(services: Services, site: Site) -> dict[ConsoleRole, SignedInUser]:
    return await _new_people(services, site)


async def _new_people(services: Services, site: Site) -> dict[ConsoleRole, SignedInUser]:
    host = f"{secrets.token_hex(4)}.console.example"
    return {
        role: await administrator(services, site, f"{role}@{host}", role) for role in ConsoleRole
    }


@pytest.fixture(scope="module")
async def second(services: Services, site: Site) -> SignedInUser:
    """A second administrator, who can approve the first administrator's changes."""
    host = f"{secrets.token_hex(4)}.console.example"
    return await administrator(services, site, f"second@{host}")


@pytest.fixture(scope="module")
async def populated(
    services: Services, site: Site, people: dict[ConsoleRole, SignedInUser]
) -> PopulatedConsole:
    new = await merchants.create(
        services.db,
        services.keyring,
        name=f"Ada {SCRIPT}",
        email="ada@example.com",
        status=MerchantStatus.APPROVED,
    )
    merchant = Merchant(site.from_new_ip(), new, Environment.SANDBOX)
    return PopulatedConsole(merchant, people, await create_sample_data(services, merchant, SCRIPT))


@pytest.fixture(scope="session")
async def production_site(services: Services) -> AsyncIterator[Site]:
    """The console in production mode, which requires second factors and a second administrator."""
    real = msgspec.structs.replace(services, is_development=False)
    asgi = pages.build(real, [console.build(real)])
    async with serving(asgi) as port:
        yield Site(port)


@pytest.fixture(scope="module")
async def in_production(services: Services, production_site: Site) -> dict[str, SignedInUser]:
    """Users in production mode, with a second factor and a recent step-up.

    The users of the fixture `people` have no second factor, and step up with a password.
    """
    people = await _new_people(services, production_site)
    other = await administrator(
        services, production_site, f"{secrets.token_hex(4)}@console.example"
    )
    named = {**{str(role): visitor for role, visitor in people.items()}, "second": other}
    for visitor in named.values():
        await visitor.enroll(services)
        await visitor.step_up(services)
    return named
