from collections.abc import AsyncIterator

import msgspec
import pytest

from manilla.audit.actor import Actor, ActorKind, acting
from manilla.people.company import providers
from manilla.people.company.providers import SignInProvider, SignInProviderChange
from manilla.services import Services
from tests.sign_in.openid_provider import OpenIdProvider, running
from tests.support.client import Site

OWNER = Actor(ActorKind.COMMAND, None, "the tests")


@pytest.fixture(scope="session")
async def openid(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[OpenIdProvider]:
    async with running(tmp_path_factory.mktemp("openid")) as provider:
        yield provider


class CompanySetup(msgspec.Struct, frozen=True):
    """A realm's company sign-in, whose client is registered at the provider."""

    provider: SignInProvider
    client: dict[str, str]

    @property
    def link(self) -> str:
        return f"/{self.provider.realm}/sign-in/company/{self.provider.key}"


async def set_up(
    services: Services,
    site: Site,
    openid: OpenIdProvider,
    merchant_id: int,
    **settings: object,
) -> CompanySetup:
    key, realm = providers.new_key(), providers.realm_of(merchant_id)
    root = f"http://127.0.0.1:{site.port}/{realm}"
    client = await openid.register(f"{root}/sign-in/company/{key}", root)
    change = SignInProviderChange(
        merchant_id=merchant_id,
        key=key,
        issuer=openid.issuer,
        client_id=client["client_id"],
        secret=client["client_secret"],
        **settings,  # type: ignore[arg-type]
    )
    with acting(OWNER):
        async with services.db.transaction() as connection:
            await providers.check(connection, change, is_production_mode=False)
            await providers.save(connection, services.keyring, change)
    found = await providers.find(services.db, merchant_id)
    assert found is not None
    return CompanySetup(found, client)
