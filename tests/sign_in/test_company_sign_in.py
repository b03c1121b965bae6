"""Company sign-in with a certified provider: who gets in, as whom, and for how long."""

import secrets
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from manilla.audit.stream import targets
from manilla.cells.moving import fence
from manilla.cli import master_key
from manilla.kit import crypto
from manilla.kit.crypto import Keyring
from manilla.notify import delivery
from manilla.people import resets, throttle
from manilla.people.company import openid as openid_client
from manilla.people.company import providers
from manilla.people.company.access import CompanySignInEnded
from manilla.people.company.openid import OpenIdClient, SignInUnavailable
from manilla.people.company.providers import BadProvider
from manilla.people.roles import ConsoleRole, Realm
from manilla.services import Services
from manilla.settings import Settings
from tests.sign_in.conftest import CompanySetup, set_up
from tests.sign_in.openid_provider import CompanyBrowser, OpenIdProvider
from tests.support.client import Site
from tests.web.signed_in_user import PASSWORD, administrator

GROUPS = {"payments-support": ConsoleRole.SUPPORT.value}
REFUSED_TOKEN = "The response of your company&#39;s sign-in is not valid"


@pytest.fixture(scope="module")
async def console(services: Services, site: Site, openid: OpenIdProvider) -> CompanySetup:
    return await set_up(services, site, openid, providers.CONSOLE, roles=GROUPS)


@pytest.fixture
async def browser_(site: Site) -> AsyncIterator[CompanyBrowser]:
    async with CompanyBrowser.of(site) as browser:
        yield browser


async def test_a_member_of_a_group_gets_its_role(
    console: CompanySetup, openid: OpenIdProvider, browser_: CompanyBrowser
) -> None:
    subject = await openid.user("payments-support")
    status, _, to = await browser_.sign_in(console.link + "?next=/console/audit", subject)
    assert (status, to.endswith("/console/audit")) == (303, True)
    assert (await browser_.get("/console/audit"))[0] == 200
    assert (await browser_.get("/console/people"))[0] == 403


async def test_a_user_without_a_group_is_rejected(
    console: CompanySetup, openid: OpenIdProvider, browser_: CompanyBrowser
) -> None:
    subject = await openid.user("others")
    status, text, _ = await browser_.sign_in(console.link, subject)
    assert (status, "has no access here" in text) == (403, True)
    assert (await browser_.get("/console/audit"))[0] == 303


@pytest.mark.parametrize(
    "forgery",
    [
        {"alg": "none"},
        {"alg": "HS256"},
        {"key": "other"},
        {"key": "other", "kid": "unknown"},
        {"claims": {"aud": "another-client"}},
        {"claims": {"aud": ["CLIENT", "another-client"]}},
        {"claims": {"aud": ["CLIENT", "another-client"], "azp": "another-client"}},
        {"claims": {"azp": "another-client"}},
        {"claims": {"iss": "https://other.example"}},
        {"claims": {"nonce": "of another browser"}},
        {"without": ["nonce"]},
        {"without": ["sub"]},
        {"without": ["exp"]},
        {"without": ["iat"]},
        {"claims": {"sub": ""}},
        {"claims": {"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"}},
        {"claims": {"exp": "SECONDS -120"}},
        {"claims": {"iat": "SECONDS 120"}},
        {"claims": {"nbf": "SECONDS 120"}},
        {"claims": {"exp": "soon"}},
    ],
    ids=str,
)
async def test_a_forged_token_is_rejected(
    console: CompanySetup, openid: OpenIdProvider, browser_: CompanyBrowser, forgery: dict[str, Any]
) -> None:
    subject = await openid.user("payments-support")
    await openid.control(forgery=_filled(forgery, console))
    status, text, _ = await browser_.sign_in(console.link, subject)
    assert (status, REFUSED_TOKEN in text) == (403, True), text
    assert (await browser_.get("/console/audit"))[0] == 303


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": "SECONDS -30"},
        {"iat": "SECONDS 30"},
        {"aud": ["CLIENT", "another-client"], "azp": "CLIENT"},
    ],
    ids=str,
)
async def test_a_valid_token_is_accepted_despite_a_small_clock_difference(
    console: CompanySetup, openid: OpenIdProvider, browser_: CompanyBrowser, claims: dict[str, Any]
) -> None:
    subject = await openid.user("payments-support")
    await openid.control(forgery=_filled({"claims": claims}, console))
    assert (await browser_.sign_in(console.link, subject))[0] == 303


def _filled(forgery: dict[str, Any], setup: CompanySetup) -> dict[str, Any]:
    def fill(value: Any) -> Any:
        if isinstance(value, list):
            return [fill(each) for each in value]
        if isinstance(value, str) and value.startswith("SECONDS"):
            return int(time.time()) + int(value.split()[1])
        return setup.provider.client_id if value == "CLIENT" else value

    claims = {name: fill(value) for name, value in forgery.get("claims", {}).items()}
    return {**forgery, "claims": claims}


async def test_the_token_of_an_earlier_sign_in_is_rejected(
    console: CompanySetup, openid: OpenIdProvider, browser_: CompanyBrowser
) -> None:
    subject = await openid.user("payments-support")
    await browser_.sign_in(console.link, subject)
    earlier = (await openid.control())["last_token"]
    await openid.control(forgery={"replay": earlier})
    status, text, _ = await browser_.sign_in(console.link, subject)
    assert (status, REFUSED_TOKEN in text) == (403, True)


async def test_a_response_works_only_once_and_only_in_the_browser_that_started(
    console: CompanySetup, openid: OpenIdProvider, site: Site
) -> None:
    subject = await openid.user("payments-support")
    async with CompanyBrowser.of(site) as victim, CompanyBrowser.of(site) as attacker:
        back = await attacker.at_provider(await attacker.start(console.link), subject)
        # Without a sign-in of its own, and with one of its own, the victim's browser rejects it.
        assert (await victim.get(back))[0] == 403
        await victim.start(console.link)
        assert (await victim.get(back))[0] == 403
        assert (await attacker.get(back))[0] == 303
        assert (await attacker.get(back))[0] == 403


async def test_a_response_of_another_provider_is_rejected(
    console: CompanySetup, openid: OpenIdProvider, browser_: CompanyBrowser
) -> None:
    subject = await openid.user("payments-support")
    back = await browser_.at_provider(await browser_.start(console.link), subject)
    mixed = back.replace("iss=http%3A%2F%2F127.0.0.1", "iss=https%3A%2F%2Fevil.example")
    assert mixed != back
    status, text, _ = await browser_.get(mixed)
    assert (status, "did not come from your company" in text) == (403, True)


async def test_a_user_is_known_by_issuer_and_subject_and_never_by_the_email_address(
    console: CompanySetup,
    openid: OpenIdProvider,
    browser_: CompanyBrowser,
    services: Services,
    site: Site,
) -> None:
    chief = await administrator(services, site, "chief@company.example")
    subject = await openid.user("payments-support", email=chief.email, email_verified=True)
    status, text, _ = await browser_.sign_in(console.link, subject)
    assert (status, "not connected with your company" in text) == (403, True)


async def test_a_rotated_key_is_fetched_and_the_old_one_is_no_longer_accepted(
    console: CompanySetup,
    openid: OpenIdProvider,
    browser_: CompanyBrowser,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(openid_client, "REFETCH_SECONDS", 0)
    subject = await openid.user("payments-support")
    assert (await browser_.sign_in(console.link, subject))[0] == 303
    await openid.control(rotate=True)
    assert (await browser_.sign_in(console.link, subject))[0] == 303
    await openid.control(forgery={"kid": "first"})
    assert (await browser_.sign_in(console.link, subject))[0] == 403


async def test_sessions_continue_while_the_provider_is_down_and_new_sign_ins_say_why(
    console: CompanySetup,
    openid: OpenIdProvider,
    browser_: CompanyBrowser,
    site: Site,
) -> None:
    subject = await openid.user("payments-support")
    await browser_.sign_in(console.link, subject)
    async with CompanyBrowser.of(site) as other:
        back = await other.at_provider(await other.start(console.link), subject)
        await openid.control(down=True)
        try:
            status, text, _ = await other.get(back)
        finally:
            await openid.control(down=False)
    assert (status, "cannot be reached" in text) == (503, True)
    assert (await browser_.get("/console/audit"))[0] == 200


async def test_the_providers_sign_out_ends_the_session(
    console: CompanySetup, openid: OpenIdProvider, browser_: CompanyBrowser
) -> None:
    subject = await openid.user("payments-support")
    await browser_.sign_in(console.link, subject)
    end = f"{openid.issuer}/session/end?client_id={console.provider.client_id}"
    _, page, _ = await browser_.get(end)
    xsrf = page.split('name="xsrf" value="')[1].split('"')[0]
    confirmed = f"{openid.issuer}/session/end/confirm"
    await browser_.ask("POST", confirmed, {"xsrf": xsrf, "logout": "yes"})
    assert (await browser_.get("/console/audit"))[0] == 303


async def test_only_a_valid_and_recent_logout_token_ends_sessions(
    console: CompanySetup, openid: OpenIdProvider, browser_: CompanyBrowser
) -> None:
    subject = await openid.user("payments-support")
    await browser_.sign_in(console.link, subject)
    now, event = int(time.time()), "http://schemas.openid.net/event/backchannel-logout"
    valid: dict[str, Any] = {
        "iss": openid.issuer,
        "aud": console.provider.client_id,
        "sub": subject,
        "iat": now,
        "exp": now + 60,
        "jti": "1",
        "events": {event: {}},
    }
    wrong: list[dict[str, Any]] = [
        {"aud": "other"},
        {"nonce": "x"},
        {"events": {}},
        {"iat": now - 900},
        {"sub": None},
    ]
    for claims in [{**valid, **each} for each in wrong] + [{**valid, "iat": now - 120}]:
        token = (await openid.control(sign=claims))["signed"]
        await browser_.ask("POST", console.link + "/sign-out", {"logout_token": token})
        assert (await browser_.get("/console/audit"))[0] == 200, claims
    # The provider's clock is 30 seconds slow.
    token = (await openid.control(sign={**valid, "iat": now - 30}))["signed"]
    status, _, _ = await browser_.ask("POST", console.link + "/sign-out", {"logout_token": token})
    assert status == 200
    assert (await browser_.get("/console/audit"))[0] == 303


async def test_forged_logout_tokens_are_limited(
    console: CompanySetup, browser_: CompanyBrowser
) -> None:
    statuses = []
    for _ in range(throttle.PER_ADDRESS + 1):
        found = await browser_.ask("POST", console.link + "/sign-out", {"logout_token": "a.b.c"})
        statuses.append(found[0])
    assert statuses == [400] * throttle.PER_ADDRESS + [429]


async def test_a_response_to_a_provider_that_was_replaced_in_the_meantime_is_rejected(
    console: CompanySetup, openid: OpenIdProvider, browser_: CompanyBrowser, services: Services
) -> None:
    subject = await openid.user("payments-support")
    back = await browser_.at_provider(await browser_.start(console.link), subject)
    change = "UPDATE sign_in_provider SET issuer = $1 WHERE merchant_id = 0"
    await services.db.execute(change, "http://127.0.0.1:9")
    try:
        status, text, _ = await browser_.get(back)
    finally:
        await services.db.execute(change, openid.issuer)
    assert (status, "was started in another browser" in text) == (403, True)


async def test_a_session_of_a_provider_that_has_just_changed_does_not_begin(
    console: CompanySetup, openid: OpenIdProvider, services: Services
) -> None:
    subject = await openid.user("payments-support")
    claims = {"sub": subject, "email": f"{subject}@company.example", "groups": ["payments-support"]}
    await services.db.execute("UPDATE sign_in_provider SET updated_at = now()")
    with pytest.raises(CompanySignInEnded):
        await services.company.begin_session(console.provider, claims, "192.0.2.1", "a browser")


async def test_an_email_address_that_is_none_creates_no_user(
    console: CompanySetup, openid: OpenIdProvider, browser_: CompanyBrowser
) -> None:
    subject = await openid.user("payments-support", email="ada,eve@company.example")
    status, text, _ = await browser_.sign_in(console.link, subject)
    assert (status, "no valid email address" in text) == (403, True)


async def test_access_ends_with_the_last_group(
    console: CompanySetup, openid: OpenIdProvider, browser_: CompanyBrowser, services: Services
) -> None:
    subject = await openid.user("payments-support")
    await browser_.sign_in(console.link, subject)
    email = f"{subject}@company.example"
    await openid.control(accounts={subject: {"email": email, "groups": []}})
    assert (await browser_.sign_in(console.link, subject))[0] == 403
    assert (await browser_.get("/console/audit"))[0] == 303
    status = await services.db.value("SELECT status FROM person WHERE email = $1", email)
    assert status == "disabled"


async def test_a_role_that_people_granted_does_not_depend_on_groups(
    console: CompanySetup,
    openid: OpenIdProvider,
    browser_: CompanyBrowser,
    services: Services,
) -> None:
    subject = await openid.user("payments-support")
    await browser_.sign_in(console.link, subject)
    email = f"{subject}@company.example"
    await services.db.execute(
        "UPDATE person SET console_role = 'operations' WHERE email = $1", email
    )
    await openid.control(accounts={subject: {"email": email, "groups": []}})
    assert (await browser_.sign_in(console.link, subject))[0] == 303
    role = await services.db.value("SELECT console_role FROM person WHERE email = $1", email)
    assert role == "operations"


async def test_signing_out_leads_to_the_provider_without_a_form(
    console: CompanySetup, openid: OpenIdProvider, browser_: CompanyBrowser
) -> None:
    await browser_.sign_in(console.link, await openid.user("payments-support"))
    status, text, _ = await browser_.post("/console/sign-out", {}, "/console/account")
    assert (status, f"{openid.issuer}/session/end?" in text) == (200, True)
    assert (await browser_.get("/console/audit"))[0] == 303


async def test_a_link_never_leads_to_another_site(
    console: CompanySetup, openid: OpenIdProvider, browser_: CompanyBrowser
) -> None:
    subject = await openid.user("payments-support")
    link = console.link + "?next=https://evil.example/console/"
    _, _, to = await browser_.sign_in(link, subject)
    assert to == f"{browser_.base}/console/"


async def test_password_users_connect_their_account_and_confirm_it_first(
    console: CompanySetup,
    openid: OpenIdProvider,
    services: Services,
    site: Site,
) -> None:
    chief = await administrator(services, site, "connecting@company.example")
    subject = await openid.user()
    fields = {"email": chief.email, "password": PASSWORD}
    async with CompanyBrowser.of(site) as browser:
        await browser.post("/console/sign-in", fields, "/console/sign-in")
        connect = "/console/account/company/connect"
        _, page, _ = await browser.post(connect, {}, "/console/account")
        assert "Confirm your identity" in page
        _, page, _ = await browser.post(connect, {"step_up_secret": PASSWORD}, "/console/account")
        url = page.split('href="' + openid.issuer)[1].split('"')[0].replace("&amp;", "&")
        back = await browser.at_provider(openid.issuer + url, subject)
        assert (await browser.get(back))[2].endswith("/console/account")
        async with CompanyBrowser.of(site) as other:
            assert (await other.sign_in(console.link, subject))[0] == 303
            assert (await other.get("/console/people"))[0] == 200
            disconnect = "/console/account/company/disconnect"
            await browser.post(disconnect, {}, "/console/account")
            assert (await other.get("/console/people"))[0] == 303
            assert (await other.sign_in(console.link, subject))[0] == 403


async def test_a_user_of_a_group_gets_no_password_with_which_to_bypass_the_group(
    console: CompanySetup, openid: OpenIdProvider, browser_: CompanyBrowser, services: Services
) -> None:
    subject = await openid.user("payments-support")
    await browser_.sign_in(console.link, subject)
    email = f"{subject}@company.example"
    await resets.ask(services.db, services.keyring, Realm.CONSOLE, email)
    links = await services.db.number(
        "SELECT count(*) FROM password_reset r JOIN person p ON p.id = r.person_id"
        " WHERE p.email = $1",
        email,
    )
    assert links == 0


async def test_a_merchants_provider_is_called_only_at_public_addresses_and_with_tls(
    openid: OpenIdProvider,
) -> None:
    async with (
        delivery.open_client(is_public_only=False, connections=1) as private,
        delivery.open_client(is_public_only=True, connections=1) as public,
    ):
        client = OpenIdClient(private, public, is_production_mode=False)
        await client.check(providers.CONSOLE, openid.issuer)
        with pytest.raises(SignInUnavailable, match="not a public address"):
            await client.check(1, openid.issuer)
        strict = OpenIdClient(private, public, is_production_mode=True)
        with pytest.raises(SignInUnavailable, match="without https"):
            await strict.check(providers.CONSOLE, openid.issuer)
        with pytest.raises(SignInUnavailable, match="issuer is"):
            await client.check(providers.CONSOLE, openid.issuer + "/")


@pytest.mark.parametrize("url", ["http://login.example", "login.example", "https://a.example/?x=1"])
async def test_an_issuer_needs_a_plain_https_url_in_production_mode(url: str) -> None:
    with pytest.raises(BadProvider, match="https URL"):
        providers.check_url(url, is_production_mode=True)


async def test_the_client_secret_and_a_targets_header_move_to_a_new_master_key(
    console: CompanySetup, services: Services, settings: Settings
) -> None:
    await targets.add(services.db, services.keyring, "siem", "https://a.example", authorization="b")
    target = await targets.find(services.db, "siem")
    assert target is not None
    [old], new = settings.master_keys, secrets.token_bytes(32)
    for keys in ((new, old), (old, new)):
        assert {providers.SEALED, targets.SEALED} <= {*master_key.PLACES}
        for place in (providers.SEALED, targets.SEALED):
            rewrapped = crypto.rewrap_column(services.db, Keyring(keys), place, fence.pass_copy)
            assert await rewrapped == 1
        only = Keyring(keys[:1])
        assert await providers.secret(services.db, only, console.provider)
        assert await targets.authorization(services.db, only, target) == "b"
    await targets.remove(services.db, "siem")
