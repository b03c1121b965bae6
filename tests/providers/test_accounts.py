"""Additional accounts of a provider kind, and the methods that are created for them."""

import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.methods import catalogue
from manilla.providers import accounts, credentials
from manilla.providers.accounts import BadAccount, UnknownProvider
from manilla.providers.kinds import KINDS


async def test_an_added_account_has_its_own_credentials_and_inactive_methods(
    db: Database, keyring: Keyring
) -> None:
    await accounts.add(db, "providera", "shoptwo")
    await catalogue.add_missing(db)
    await credentials.change(db, keyring, "shoptwo", {"secret_key": "k", "webhook_secret": "w"})
    loaded = await credentials.load(db, keyring)
    assert (loaded["shoptwo"].is_valid, loaded["shoptwo"].title) == (True, "Provider A (shoptwo)")
    assert not loaded["providera"].given
    methods = {method.code: method for method in await catalogue.load(db)}
    for code in ("shoptwo-ngn", "shoptwo_ngn_va", "shoptwo_ngn_transfer"):
        assert (methods[code].provider, methods[code].active) == ("shoptwo", False)


async def test_methods_are_added_once(db: Database) -> None:
    await catalogue.add_missing(db)
    before = await catalogue.load(db)
    await catalogue.add_missing(db)
    assert await catalogue.load(db) == before


@pytest.mark.parametrize(
    "name", ["", "x", "Shop", "9shop", "shop-two", "shop_two", "s" * 32, "providerb", "shop\n"]
)
async def test_an_account_with_a_bad_or_used_name_is_rejected(db: Database, name: str) -> None:
    with pytest.raises(BadAccount):
        await accounts.add(db, "providera", name)
    assert name not in (await accounts.load(db)).keys() - KINDS.keys()


async def test_an_account_of_an_unknown_kind_is_rejected(db: Database) -> None:
    with pytest.raises(UnknownProvider):
        await accounts.add(db, "nobank", "shopthree")


@pytest.mark.parametrize("name", accounts.RESERVED)
async def test_a_name_that_means_no_account_is_reserved(db: Database, name: str) -> None:
    with pytest.raises(accounts.BadAccount, match="reserved"):
        await accounts.add(db, "paystack", name)
