"""In production mode, one administrator alone cannot send money to another server or account."""

from collections.abc import AsyncIterator

import pytest

from manilla.approvals import approvals
from manilla.approvals.approvals import Approvals
from manilla.approvals.changes import ApprovalRequested, apply_or_ask
from manilla.approvals.kinds import (
    Change,
    MethodAddition,
    MethodChange,
    ProviderAddition,
    ProviderChange,
    ProviderClearing,
)
from manilla.audit.actor import acting
from manilla.kit.database.connections import Database
from manilla.kit.http_client import urls
from manilla.methods import catalogue
from manilla.methods.catalogue import MethodUpdate, NewMethod
from manilla.methods.method import Flow, Method, MethodKind
from manilla.providers import accounts, credentials
from manilla.providers.credentials import BadCredentials
from manilla.providers.kind import Credentials
from manilla.providers.kinds import KINDS
from tests.audit.test_approvals import ADA, BOLA, ask

VALID = {"secret_key": "one", "webhook_secret": "two"}
KORA_KEYS = {"secret_key": "one", "public_key": "two"}
DEPOSIT, WITHDRAW = MethodKind.DEPOSIT, MethodKind.WITHDRAW


@pytest.fixture(autouse=True)
async def _no_provider(approving: Approvals, owner: Database) -> AsyncIterator[None]:
    """Removes all provider credentials and resets the methods, before and after each test."""
    methods = await catalogue.load(approving.db)
    for name in KINDS:
        await credentials.clear(approving.db, name)
    yield
    for name in KINDS:
        await credentials.clear(approving.db, name)
    for method in methods:
        before = MethodUpdate(active=method.active, position=method.position)
        await catalogue.change(approving.db, method.kind, method.code, before)
    added = {each.code for each in await catalogue.load(owner)} - {each.code for each in methods}
    await owner.execute("DELETE FROM method WHERE code = ANY($1)", list(added))


async def apply(approving: Approvals, change: Change) -> object:
    """Applies the change as one administrator, without a second administrator's approval."""
    with acting(ADA):
        done = await apply_or_ask(approving, change)
    assert not isinstance(done, ApprovalRequested)
    return done


async def approve(approving: Approvals, number: int) -> object:
    with acting(BOLA):
        return (await approvals.approve(approving, number)).result


async def have_a_valid_provider(approving: Approvals) -> None:
    await credentials.change(approving.db, approving.keyring, "providerc", VALID)


async def test_the_first_provider_is_configured_immediately(approving: Approvals) -> None:
    for wanted in ({"secret_key": "one"}, {"webhook_secret": "two", "sandbox": "true"}):
        done = await apply(approving, ProviderChange("providerc", wanted))
        assert isinstance(done, Credentials)
    off = {"pay_in_enabled": "false", "pay_out_enabled": "false", "sandbox": "true"}
    await apply(approving, ProviderChange("providerc", off))
    for change in (
        ProviderChange("providerc", {"sandbox": "false"}),
        ProviderChange("providerc", {"base_url": "https://elsewhere.example"}),
        ProviderChange("providerc", {"secret_key": ""}),
        ProviderClearing("providerc"),
    ):
        await ask(approving, change)


@pytest.mark.parametrize(
    "wanted",
    [
        KORA_KEYS,
        {"secret_key": "one"},
        {"base_url": "https://api.korapay.com/v2"},
        {"sandbox": "false", **KORA_KEYS},
    ],
)
async def test_first_credentials_wait_once_any_provider_is_valid(
    approving: Approvals, wanted: dict[str, str]
) -> None:
    await have_a_valid_provider(approving)
    number = await ask(approving, ProviderChange("kora", wanted))
    known = await credentials.load(approving.db, approving.keyring)
    assert known["kora"].given == {}
    done = await approve(approving, number)
    assert isinstance(done, Credentials)
    assert done.given == wanted


async def test_switching_a_provider_off_or_to_its_test_account_never_waits(
    approving: Approvals,
) -> None:
    await have_a_valid_provider(approving)
    await apply(approving, ProviderChange("providerc", {"pay_out_enabled": "false"}))
    await apply(approving, ProviderChange("kora", {"sandbox": "true"}))


async def test_another_host_than_the_provider_s_own_waits_even_for_the_first_provider(
    approving: Approvals,
) -> None:
    elsewhere = {"base_url": "https://api.korapay.com.attacker.example", **KORA_KEYS}
    number = await ask(approving, ProviderChange("kora", elsewhere))
    await ask(approving, ProviderChange("monnify", {"base_url": "https://localhost"}))
    own = ProviderChange("monnify", {"base_url": "https://sandbox.monnify.com:443/"})
    await apply(approving, own)
    await apply(approving, ProviderChange("providera", {"base_url": "https://unknown.example"}))
    done = await approve(approving, number)
    assert isinstance(done, Credentials)
    assert done.value("base_url") == elsewhere["base_url"]


@pytest.mark.parametrize(
    "url",
    [
        "https://api.korapay.com.",
        "https://api.korapay.com.attacker.example",
        "https://attacker.example/api.korapay.com",
        "https://attacker.example#https://api.korapay.com",
        "https://api.korapay.com#.attacker.example",
        "https://api.korapay.com@attacker.example",
        "https://api.korapay.com:443@attacker.example",
        "https://api.korapay.com\\.attacker.example",
        "https://api.korapay.com\t.attacker.example",
        "https://api.korapay.com%2f.attacker.example",
        "https://api.korapay.com;.attacker.example",
        "https://api.korapay.com?.attacker.example",
        "https://api.korapay.com:443:8443",
        "https://[api.korapay.com].attacker.example",
        "https://xn--api-korapay-com.example",
        "https://api.korap\u0430y.com",
        "https:api.korapay.com",
        "https:///attacker.example",
        " https://api.korapay.com.attacker.example",
        "HTTPS://API.KORAPAY.COM",
        "https://api.korapay.com:443",
        "https://api.korapay.com:8443/",
    ],
)
async def test_no_spelling_of_a_url_lets_one_administrator_use_another_host(
    approving: Approvals, url: str
) -> None:
    with acting(ADA):
        try:
            done = await apply_or_ask(approving, ProviderChange("kora", {"base_url": url}))
        except BadCredentials:
            return
    if not isinstance(done, ApprovalRequested):
        target = urls.parse(f"{url}/merchant/api/v1/transactions/disburse")
        assert (target.origin.is_tls, target.origin.host) == (True, "api.korapay.com")
        assert target.path.endswith("/disburse")


@pytest.mark.parametrize("name", ["secret_key", "public_key", "encryption_key"])
async def test_a_repeated_url_does_not_hide_another_change(approving: Approvals, name: str) -> None:
    approved = {"base_url": "https://relay.example", **KORA_KEYS}
    await credentials.change(approving.db, approving.keyring, "kora", approved)
    await ask(approving, ProviderChange("kora", {**approved, name: "replaced"}))
    await ask(approving, ProviderChange("kora", {**approved, "sandbox": "false", name: ""}))
    await apply(approving, ProviderChange("kora", {**approved, "pay_out_enabled": "false"}))


@pytest.mark.parametrize("url", ["http://api.korapay.com", "HTTP://127.0.0.1:9"])
async def test_a_url_without_tls_is_rejected_in_production_mode_only(
    approving: Approvals, url: str
) -> None:
    change = ProviderChange("kora", {"base_url": url})
    with pytest.raises(BadCredentials, match="https"):
        await apply_or_ask(approving, change)
    here = Approvals(approving.db, approving.keyring, is_production_mode=False)
    await apply(here, change)
    with acting(ADA):
        requested_in_development = await approvals.request(here, change)
    with pytest.raises(BadCredentials, match="https"):
        await approve(approving, requested_in_development)


@pytest.mark.parametrize(("kind", "code"), [(DEPOSIT, "kora-ngn"), (WITHDRAW, "kora_ngn_transfer")])
async def test_activating_and_reordering_methods_wait_once_any_provider_is_valid(
    approving: Approvals, kind: MethodKind, code: str
) -> None:
    await apply(approving, MethodChange(kind, code, MethodUpdate(active=True, position=7)))
    await have_a_valid_provider(approving)
    await apply(approving, MethodChange(kind, code, MethodUpdate(active=False, position=7)))
    await ask(approving, MethodChange(kind, code, MethodUpdate(position=0)))
    number = await ask(approving, MethodChange(kind, code, MethodUpdate(active=True)))
    assert not (await catalogue.get(approving.db, kind, code)).active
    done = await approve(approving, number)
    assert isinstance(done, Method)
    assert done.active


async def test_a_new_method_waits_once_any_provider_is_valid(approving: Approvals) -> None:
    first = NewMethod(WITHDRAW, "manual-ngn", "Manual", "NGN")
    assert isinstance(await apply(approving, MethodAddition(first)), Method)
    await have_a_valid_provider(approving)
    cedi = NewMethod(DEPOSIT, "kora-ghs", "Cedi", "GHS", "kora", Flow.HOSTED)
    number = await ask(approving, MethodAddition(cedi))
    assert (await approvals.find(approving.db, number)).detail["provider"] == "kora"
    assert "kora-ghs" not in {each.code for each in await catalogue.load(approving.db)}
    done = await approve(approving, number)
    assert isinstance(done, Method)
    assert (done.active, done.currency) == (True, "GHS")


async def test_a_new_account_is_added_only_once_approved(
    approving: Approvals, owner: Database
) -> None:
    number = await ask(approving, ProviderAddition("paystack", "shopsix"))
    assert "shopsix" not in await accounts.load(approving.db)
    try:
        with acting(BOLA):
            await approvals.approve(approving, number)
        assert (await accounts.load(approving.db))["shopsix"].name == "paystack"
        methods = {method.code: method for method in await catalogue.load(approving.db)}
        assert not methods["shopsix_ngn_transfer"].active
    finally:
        await owner.execute("DELETE FROM method WHERE provider = 'shopsix'")
        await owner.execute("DELETE FROM provider_account WHERE name = 'shopsix'")
