"""Which gateways the checkout offers for a payment, with one test for each rule."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.methods import catalogue
from manilla.methods.method import Flow, MethodKind
from manilla.services import Services
from tests.payments import steps
from tests.payments.orders import order
from tests.support.client import Merchant, Site, new_merchant
from tests.support.freshness import outdate
from tests.support.rows import first_short, long_rows, pairs

A, A_ACCOUNT = "providera-ngn", "providera_ngn_va"
B, B_ACCOUNT = "providerb-ngn", "providerb_ngn_va"
C = "providerc-ngn"
DOLLARS = "eligibility-usd"
WITHOUT_BVN = [A, B, B_ACCOUNT, C]
ALL = [A, A_ACCOUNT, B, B_ACCOUNT, C]
BVN = "12345678901"


@pytest.fixture(scope="module", autouse=True)
async def _dollars(services: Services) -> AsyncIterator[None]:
    """Adds a method in US dollars, which must not be offered for a payment in naira."""
    method = await catalogue.add(
        services.db,
        catalogue.NewMethod(
            MethodKind.DEPOSIT,
            DOLLARS,
            name="Provider C dollar checkout",
            currency="USD",
            provider="providerc",
            flow=Flow.HOSTED,
        ),
    )
    await steps.until(lambda: services.methods.by_id(MethodKind.DEPOSIT, method.id) == method)
    yield
    await steps.change_method(services, DOLLARS, active=False)


@pytest.fixture(scope="module", autouse=True)
async def _providers(services: Services) -> AsyncIterator[None]:
    await steps.configure(services, steps.ALL_PROVIDERS)
    yield
    await steps.configure(services, {})


@pytest.fixture
async def _providers_restored(services: Services) -> AsyncIterator[None]:
    yield
    await steps.configure(services, steps.ALL_PROVIDERS)


restores_providers = pytest.mark.usefixtures("_providers_restored")


@pytest.fixture
async def merchant(site: Site, db: Database, keyring: Keyring) -> Merchant:
    return await new_merchant(site, db, keyring)


async def info(merchant: Merchant, **changed: Any) -> dict[str, Any]:
    reply = await steps.initiate(merchant, order(**changed))
    assert reply.status == 200, reply.body
    found: dict[str, Any] = reply.json["info"]
    return found


async def codes(merchant: Merchant, **changed: Any) -> list[str]:
    found: list[str] = (await info(merchant, **changed))["merchant_payment_method_codes"]
    return found


def without(provider: str, *names: str) -> steps.Given:
    """Returns the credentials of all providers, but without this provider or some of its fields."""
    rest = {n: v for n, v in steps.ALL_PROVIDERS[provider].items() if n not in names}
    return {**steps.ALL_PROVIDERS, provider: rest if names else {}}


def with_(provider: str, more: Mapping[str, str]) -> steps.Given:
    return {**steps.ALL_PROVIDERS, provider: {**steps.ALL_PROVIDERS[provider], **more}}


@pytest.mark.parametrize("environment", Environment)
async def test_all_gateways_of_the_currency_are_offered_in_provider_order(
    merchant: Merchant, services: Services, environment: Environment
) -> None:
    await steps.change(services, merchant, bvn=BVN)
    found = await info(steps.in_environment(merchant, environment))
    assert found["merchant_payment_method_codes"] == ALL
    assert found["merchant_payment_methods_restricted"] is False


@pytest.mark.parametrize("keywords", [None, "providerb", "nothing at all"])
async def test_gateway_ids_match_their_codes(
    merchant: Merchant, db: Database, keywords: str | None
) -> None:
    ids = {method.code: method.id for method in await catalogue.load(db)}
    found = await info(merchant, allow_payment_methods=keywords)
    expected = [ids[code] for code in found["merchant_payment_method_codes"]]
    assert found["merchant_payment_method_ids"] == expected


@restores_providers
@pytest.mark.parametrize("environment", Environment)
async def test_without_credentials_nothing_is_offered_and_the_payment_is_accepted(
    merchant: Merchant, services: Services, environment: Environment
) -> None:
    await steps.configure(services, {})
    found = await info(steps.in_environment(merchant, environment))
    assert found["merchant_payment_method_codes"] == []
    assert found["merchant_payment_method_ids"] == []
    assert found["merchant_payment_methods_restricted"] is False


@restores_providers
@pytest.mark.parametrize(
    ("provider", "missing", "offered"),
    [
        ("providera", (), [B, B_ACCOUNT, C]),
        ("providerb", ("business_id",), [A, C]),
        ("providerc", ("webhook_secret",), [A, B, B_ACCOUNT]),
        *long_rows(
            ("providera", ("secret_key",), [B, B_ACCOUNT, C]),
            ("providera", ("webhook_secret",), [B, B_ACCOUNT, C]),
            ("providerb", (), [A, C]),
            ("providerb", ("api_key",), [A, C]),
            ("providerb", ("secret_key",), [A, C]),
            ("providerc", (), [A, B, B_ACCOUNT]),
            ("providerc", ("secret_key",), [A, B, B_ACCOUNT]),
        ),
    ],
)
async def test_a_provider_without_credentials_is_not_offered(
    merchant: Merchant,
    services: Services,
    provider: str,
    missing: tuple[str, ...],
    offered: list[str],
) -> None:
    await steps.configure(services, without(provider, *missing))
    assert await codes(merchant) == offered


@restores_providers
@pytest.mark.parametrize(
    ("closed", "environment"),
    pairs([("providerb", [A, C]), ("providerc", [A, B, B_ACCOUNT])], list(Environment)),
)
async def test_a_provider_disabled_for_payments_is_not_offered(
    merchant: Merchant,
    services: Services,
    closed: tuple[str, list[str]],
    environment: Environment,
) -> None:
    provider, offered = closed
    await steps.configure(services, with_(provider, {"pay_in_enabled": "false"}))
    assert await codes(steps.in_environment(merchant, environment)) == offered


@restores_providers
@pytest.mark.parametrize("provider", first_short(["providerb", "providerc"]))
async def test_a_provider_disabled_for_payouts_accepts_payments(
    merchant: Merchant, services: Services, provider: str
) -> None:
    await steps.configure(services, with_(provider, {"pay_out_enabled": "false"}))
    assert await codes(merchant) == WITHOUT_BVN


@pytest.mark.parametrize("code", first_short(WITHOUT_BVN))
async def test_an_inactive_method_is_not_offered(
    merchant: Merchant, services: Services, code: str
) -> None:
    await steps.change_method(services, code, active=False)
    try:
        assert await codes(merchant) == [other for other in WITHOUT_BVN if other != code]
    finally:
        await steps.change_method(services, code, active=True)


async def test_methods_are_offered_in_their_configured_order(
    merchant: Merchant, services: Services
) -> None:
    await steps.change_method(services, C, position=0)
    try:
        assert await codes(merchant) == [C, A, B, B_ACCOUNT]
    finally:
        await steps.change_method(services, C, position=5)
    assert await codes(merchant) == WITHOUT_BVN


async def test_a_gateway_is_offered_only_for_its_own_currency(
    merchant: Merchant, services: Services
) -> None:
    await steps.change(services, merchant, currencies=["NGN", "USD", "GHS"])
    assert await codes(merchant, currency_code="NGN") == WITHOUT_BVN
    assert await codes(merchant, currency_code="USD") == [DOLLARS]
    assert await codes(merchant, currency_code="GHS") == []


async def test_selection_and_keywords_never_add_another_currency(
    merchant: Merchant, services: Services
) -> None:
    await steps.change(services, merchant, currencies=["NGN", "USD"], gateways=[A, DOLLARS])
    for keywords in (None, ["dollar", DOLLARS, A]):
        assert await codes(merchant, currency_code="NGN", allow_payment_methods=keywords) == [A]
    for keywords in (None, [DOLLARS, A]):
        offered = await codes(merchant, currency_code="USD", allow_payment_methods=keywords)
        assert offered == [DOLLARS]


@pytest.mark.parametrize(
    ("choice", "environment"),
    pairs(
        [
            ([A], [A]),
            ([C, A], [A, C]),
            ([B_ACCOUNT, B], [B, B_ACCOUNT]),
            (ALL, WITHOUT_BVN),
            ([A_ACCOUNT], []),
            ([DOLLARS], []),
        ],
        list(Environment),
    ),
)
async def test_a_merchants_selection_limits_what_is_offered(
    merchant: Merchant,
    services: Services,
    choice: tuple[list[str], list[str]],
    environment: Environment,
) -> None:
    selected, offered = choice
    await steps.change(services, merchant, gateways=selected)
    found = await info(steps.in_environment(merchant, environment))
    assert found["merchant_payment_method_codes"] == offered
    assert found["merchant_payment_methods_restricted"] is True


async def test_a_merchant_without_a_selection_gets_every_gateway(
    merchant: Merchant, services: Services
) -> None:
    await steps.change(services, merchant, gateways=[A])
    await steps.change(services, merchant, gateways=[])
    found = await info(merchant)
    assert found["merchant_payment_method_codes"] == WITHOUT_BVN
    assert found["merchant_payment_methods_restricted"] is False


@restores_providers
async def test_a_selected_gateway_without_credentials_is_not_offered(
    merchant: Merchant, services: Services
) -> None:
    await steps.change(services, merchant, gateways=[A, B])
    await steps.configure(services, without("providerb"))
    assert await codes(merchant) == [A]


@pytest.mark.parametrize(
    ("keywords", "offered"),
    [
        ("providerb-ngn", [B]),
        ("providerb", [B, B_ACCOUNT]),
        ("PROVIDERB", [B, B_ACCOUNT]),
        ("Provider C", [C]),
        ("provider c", [C]),
        ("CHECKOUT", [A, B, C]),
        ("bank transfer", [B_ACCOUNT]),
        ("_va", [B_ACCOUNT]),
        ("providera,providerc", [A, C]),
        ("providerc , PROVIDERA", [A, C]),
        (["providerc", "Provider A"], [A, C]),
        (["providerc,providera"], []),
        (["ngn"], WITHOUT_BVN),
        ("", WITHOUT_BVN),
        ([], WITHOUT_BVN),
        ("card", []),
        ("provider_", []),
        (["%"], []),
        ([".*"], []),
    ],
    ids=repr,
)
async def test_keywords_match_parts_of_names_and_codes_case_insensitively(
    merchant: Merchant, keywords: Any, offered: list[str]
) -> None:
    assert await codes(merchant, allow_payment_methods=keywords) == offered


async def test_keywords_do_not_change_the_merchants_selection(merchant: Merchant) -> None:
    found = await info(merchant, allow_payment_methods="providera")
    assert found["merchant_payment_methods_restricted"] is False


@pytest.mark.parametrize("keywords", [[A, C], f"{A},{C}", "checkout"])
async def test_keywords_narrow_the_selection_and_never_add_to_it(
    merchant: Merchant, services: Services, keywords: Any
) -> None:
    await steps.change(services, merchant, gateways=[B_ACCOUNT, C])
    assert await codes(merchant, allow_payment_methods=keywords) == [C]


@pytest.mark.parametrize("code", [A_ACCOUNT, DOLLARS, "providera_ngn_transfer", "platform"])
async def test_keywords_add_nothing_that_was_not_offered(merchant: Merchant, code: str) -> None:
    assert await codes(merchant, allow_payment_methods=[code]) == []


@restores_providers
async def test_keywords_never_add_a_disabled_gateway(
    merchant: Merchant, services: Services
) -> None:
    closed = with_("providerb", {"pay_in_enabled": "false"})
    await steps.configure(services, {**closed, "providera": {}})
    await steps.change_method(services, C, active=False)
    try:
        assert await codes(merchant, allow_payment_methods=ALL) == []
    finally:
        await steps.change_method(services, C, active=True)


@pytest.mark.parametrize("environment", Environment)
async def test_a_virtual_account_at_provider_a_needs_a_bvn(
    merchant: Merchant, services: Services, environment: Environment
) -> None:
    caller = steps.in_environment(merchant, environment)
    assert await codes(caller) == WITHOUT_BVN
    await steps.change(services, merchant, bvn=BVN)
    await outdate(services)
    assert await codes(caller) == ALL


@restores_providers
@pytest.mark.parametrize("environment", Environment)
async def test_a_virtual_account_at_provider_as_sandbox_needs_no_bvn(
    merchant: Merchant, services: Services, environment: Environment
) -> None:
    await steps.configure(services, with_("providera", {"sandbox": "true"}))
    assert await codes(steps.in_environment(merchant, environment)) == ALL


@restores_providers
@pytest.mark.parametrize("provider", first_short(["providerb", "providerc"]))
async def test_another_providers_sandbox_does_not_waive_the_bvn(
    merchant: Merchant, services: Services, provider: str
) -> None:
    await steps.configure(services, with_(provider, {"sandbox": "true"}))
    assert await codes(merchant) == WITHOUT_BVN
