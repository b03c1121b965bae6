"""A merchant with all types of sample data. Every text in the data contains a script."""

import msgspec
import pytest

from manilla.dashboard import routes as dashboard
from manilla.kit.environment import Environment
from manilla.merchants import merchants
from manilla.merchants.merchants import MerchantStatus
from manilla.people import invitations
from manilla.people.roles import Role
from manilla.services import Services
from manilla.web.routes import Route
from tests.dashboard.sample_data import create_sample_data
from tests.support.client import Merchant, Site
from tests.web.signed_in_user import SignedInUser, member

# This script would run on any page that does not escape it in text, attributes or scripts.
SCRIPT = "<script>stolen()</script>\"'><img src=x onerror=stolen()>"


class PopulatedMerchant(msgspec.Struct, frozen=True):
    """A merchant with a user for each role, and a sample value for each route parameter."""

    merchant: Merchant
    people: dict[Role, SignedInUser]
    samples: dict[str, str]

    @property
    def owner(self) -> SignedInUser:
        return self.people[Role.OWNER]


async def _populated(services: Services, site: Site) -> PopulatedMerchant:
    name = f"Ada {SCRIPT}"
    new = await merchants.create(
        services.db,
        services.keyring,
        name=name,
        email="ada@example.com",
        status=MerchantStatus.APPROVED,
    )
    merchant = Merchant(site.from_new_ip(), new, Environment.SANDBOX)
    people = {role: await member(services, site, new.id, role) for role in Role}
    samples = {
        "environment": "sandbox",
        "list": "payments",
        "company": "none",
        "currency": "NGN",
        "row": "1",
        **await _people_samples(services, people, new.id),
    }
    samples.update(await create_sample_data(services, merchant, SCRIPT))
    return PopulatedMerchant(merchant, people, samples)


async def _people_samples(
    services: Services, people: dict[Role, SignedInUser], merchant_id: int
) -> dict[str, str]:
    db, viewer = services.db, people[Role.VIEWER]
    token = await invitations.invite(
        db, services.keyring, None, merchant_id, f"new-{merchant_id}@example.com", Role.VIEWER
    )
    [invitation] = await invitations.list_open(db, merchant_id)
    session = await db.value("SELECT id FROM session WHERE person_id = $1", viewer.person_id)
    return {
        "token": token,
        "invitation": str(invitation.id),
        "person": str(viewer.person_id),
        "session": str(session),
    }


@pytest.fixture(scope="session")
def table() -> list[Route]:
    return dashboard.ROUTES


@pytest.fixture(scope="module")
async def populated(services: Services, site: Site) -> PopulatedMerchant:
    return await _populated(services, site)


@pytest.fixture(scope="module")
async def other_merchant(services: Services, site: Site) -> PopulatedMerchant:
    return await _populated(services, site)
