"""Step-up: the form is validated first, and nothing changes until the user has stepped up."""

from collections.abc import Mapping

import pytest

from manilla.audit.actor import acting, is_unconfirmed
from manilla.merchants import merchants
from manilla.services import Services
from tests.audit.test_log import ADA
from tests.support.client import Site, new_merchant
from tests.web.signed_in_user import SignedInUser, administrator, member

PASSWORD_FIELD = b'name="step_up_secret"'
CHANGES = "SELECT count(*) FROM audit"

# Each row has a path, a form with an error, the error, and a valid form.
MERCHANT_FORMS = [
    (
        "/sandbox/webhooks",
        {"url": "not a url", "events": "payment.*"},
        b"https://",
        {"url": "https://shop.example/hook", "events": "payment.*"},
    ),
    (
        "/sandbox/credentials/keys",
        {"name": "", "rights": "read"},
        b"This field is required.",
        {"name": "Reports", "rights": "read"},
    ),
    (
        "/team/invite",
        {"email": "nobody", "role": "viewer"},
        b"email address",
        {"email": "new@example.com", "role": "viewer"},
    ),
    (
        "/sandbox/protection/threshold",
        {"currency": "NGN", "amount": "many"},
        b'value="many"',
        {"currency": "NGN", "amount": "5000"},
    ),
]
ADMINISTRATOR_FORMS = [
    (
        "/settings/rate_limit_per_minute",
        {"value": "many"},
        b"number",
        {"value": "700"},
    ),
    (
        "/merchants/new",
        {"name": "A shop", "email": "nobody", "currency": "NGN"},
        b"email address",
        {"name": "A shop", "email": "shop@example.com", "currency": "NGN"},
    ),
]


@pytest.fixture(scope="module")
async def owner(site: Site, services: Services) -> SignedInUser:
    merchant = await new_merchant(site, services.db, services.keyring)
    return await member(services, site, merchant.new.id)


@pytest.fixture(scope="module")
async def chief(site: Site, services: Services) -> SignedInUser:
    return await administrator(services, site, "chief@console.example")


async def _check(
    user: SignedInUser,
    services: Services,
    path: str,
    wrong: Mapping[str, str],
    error: bytes,
    valid: Mapping[str, str],
) -> None:
    before = await services.db.number(CHANGES)
    rejected = await user.post(path, wrong)
    page = rejected.body
    if rejected.status == 303:
        page = (await user.follow(rejected)).encode()
    assert error in page, path
    assert PASSWORD_FIELD not in page, path
    asked = await user.post(path, valid)
    assert asked.status == 200, path
    assert PASSWORD_FIELD in asked.body, path
    assert await services.db.number(CHANGES) == before, path


@pytest.mark.parametrize(("path", "wrong", "error", "valid"), MERCHANT_FORMS)
async def test_a_merchants_form_is_checked_before_the_password_is_asked(
    owner: SignedInUser,
    services: Services,
    path: str,
    wrong: Mapping[str, str],
    error: bytes,
    valid: Mapping[str, str],
) -> None:
    await _check(owner, services, path, wrong, error, valid)


@pytest.mark.parametrize(("path", "wrong", "error", "valid"), ADMINISTRATOR_FORMS)
async def test_an_administrators_form_is_checked_before_the_password_is_asked(
    chief: SignedInUser,
    services: Services,
    path: str,
    wrong: Mapping[str, str],
    error: bytes,
    valid: Mapping[str, str],
) -> None:
    await _check(chief, services, path, wrong, error, valid)


async def test_a_change_before_the_confirmation_is_rolled_back(
    site: Site, services: Services
) -> None:
    merchant = (await new_merchant(site, services.db, services.keyring)).new.id
    before = await merchants.get(services.db, merchant)
    update = merchants.MerchantUpdate(payouts_enabled=False)
    with acting(ADA):
        is_unconfirmed.set(True)
        with pytest.raises(AssertionError, match="confirmed their identity"):
            await merchants.change(services.db, services.keyring, merchant, update)
    assert await merchants.get(services.db, merchant) == before
