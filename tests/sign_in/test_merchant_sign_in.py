"""Company sign-in of a merchant, which must not trust what another merchant's provider asserts."""

import re
from collections.abc import AsyncIterator

import msgspec
import pyotp
import pytest

from manilla.approvals import approvals, changes
from manilla.approvals.approvals import Approvals
from manilla.audit.actor import Actor, ActorKind, acting
from manilla.people import members, persons, resets, throttle
from manilla.people.company import providers
from manilla.people.company.providers import BadProvider, NoProvider, SignInProviderChange
from manilla.people.members import BreakGlassMember
from manilla.people.roles import ConsoleRole, Realm, Role
from manilla.people.second_person import ApprovalNotAllowed
from manilla.services import Services
from tests.sign_in import hostile_provider
from tests.sign_in.conftest import CompanySetup, set_up
from tests.sign_in.openid_provider import CompanyBrowser, OpenIdProvider
from tests.support.client import Site, new_merchant
from tests.web.signed_in_user import PASSWORD, SignedInUser, administrator, member

GROUPS = {"developers": Role.DEVELOPER.value, "staff": Role.VIEWER.value}
ROOT = "/dashboard"


@pytest.fixture
async def owner(services: Services, site: Site) -> SignedInUser:
    merchant = await new_merchant(site, services.db, services.keyring)
    return await member(services, site, merchant.new.id)


async def _merchant_of(services: Services, user: SignedInUser) -> int:
    [found] = await members.merchants_of(services.db, user.person_id)
    return found.merchant_id


@pytest.fixture
async def company(
    services: Services, site: Site, openid: OpenIdProvider, owner: SignedInUser
) -> CompanySetup:
    merchant_id = await _merchant_of(services, owner)
    return await set_up(services, site, openid, merchant_id, roles=GROUPS)


@pytest.fixture
async def employee(site: Site) -> AsyncIterator[CompanyBrowser]:
    async with CompanyBrowser.of(site) as browser:
        yield browser


async def _password(browser: CompanyBrowser, email: str, root: str = ROOT) -> tuple[int, str, str]:
    fields = {"email": email, "password": PASSWORD}
    return await browser.post(f"{root}/sign-in", fields, f"{root}/sign-in")


async def _connect(browser: CompanyBrowser, openid: OpenIdProvider, subject: str) -> None:
    """Connects the account of the user who is signed in with a password."""
    page, fields = f"{ROOT}/account", {"step_up_secret": PASSWORD}
    _, text, _ = await browser.post(f"{page}/company/connect", fields, page)
    url = re.findall(r'href="(http[^"]+/auth[^"]+)"', text)[0].replace("&amp;", "&")
    assert (await browser.get(await browser.at_provider(url, subject)))[0] == 303


async def test_a_merchants_page_names_the_provider_before_the_browser_goes_there(
    company: CompanySetup, employee: CompanyBrowser
) -> None:
    status, text, _ = await employee.get(company.link)
    assert (status, "<strong>127.0.0.1</strong>" in text) == (200, True)


async def test_the_page_names_the_site_to_which_it_leads(
    company: CompanySetup, employee: CompanyBrowser, services: Services
) -> None:
    async with hostile_provider.running() as hostile:
        hostile.elsewhere = "https://bank.example/log-in"
        await services.db.execute(
            "UPDATE sign_in_provider SET issuer = $1 WHERE merchant_id = $2",
            *(hostile.issuer, company.provider.merchant_id),
        )
        _, text, _ = await employee.get(company.link)
    assert "<strong>bank.example</strong>" in text


async def test_an_employee_joins_with_the_role_of_the_first_group_and_the_owners_are_notified(
    company: CompanySetup, openid: OpenIdProvider, employee: CompanyBrowser, services: Services
) -> None:
    subject = await openid.user("staff", "developers")
    await employee.sign_in(company.link, subject)
    assert (await employee.get(f"{ROOT}/sandbox/credentials"))[0] == 200
    mails = await services.db.number(
        "SELECT count(*) FROM mail WHERE kind = 'team_changed' AND merchant_id = $1",
        company.provider.merchant_id,
    )
    assert mails > 0
    await openid.control(accounts={subject: {"groups": ["staff"]}})
    await employee.sign_in(company.link, subject)
    assert (await employee.get(f"{ROOT}/sandbox/credentials"))[0] == 403
    await openid.control(accounts={subject: {"groups": []}})
    assert (await employee.sign_in(company.link, subject))[0] == 403
    assert (await employee.get(f"{ROOT}/sandbox/payments"))[0] == 303


async def test_the_response_of_one_provider_is_not_accepted_for_another_merchant(
    services: Services,
    site: Site,
    company: CompanySetup,
    openid: OpenIdProvider,
    employee: CompanyBrowser,
) -> None:
    other = (await new_merchant(site, services.db, services.keyring)).new.id
    victim = await set_up(services, site, openid, other, roles=GROUPS)
    subject = await openid.user("developers")
    back = await employee.at_provider(await employee.start(company.link), subject)
    mixed = back.replace(company.provider.key, victim.provider.key)
    assert mixed != back
    status, text, _ = await employee.get(mixed)
    assert (status, "was started in another browser" in text) == (403, True)


@pytest.mark.parametrize("role", ["owner", "finance"])
async def test_a_group_cannot_grant_a_role_that_moves_money(
    services: Services, owner: SignedInUser, role: str
) -> None:
    change = SignInProviderChange(
        merchant_id=await _merchant_of(services, owner),
        key=providers.new_key(),
        issuer="https://login.example",
        client_id="manilla",
        secret="secret",
        roles={"finance": role},
    )
    with pytest.raises(BadProvider, match="viewer"):
        await providers.check(services.db, change, is_production_mode=True)


def test_no_group_grants_what_a_second_person_guards() -> None:
    assert providers.granted_roles(Realm.CONSOLE) == [ConsoleRole.SUPPORT]
    assert providers.granted_roles(Realm.DASHBOARD) == [Role.DEVELOPER, Role.VIEWER]


async def test_a_session_of_one_merchants_provider_does_not_reach_another_merchant(
    services: Services,
    site: Site,
    company: CompanySetup,
    openid: OpenIdProvider,
    owner: SignedInUser,
    employee: CompanyBrowser,
) -> None:
    other = (await new_merchant(site, services.db, services.keyring)).new.id
    async with services.db.transaction() as connection:
        await members.join(connection, other, owner.person_id, Role.OWNER)
    subject = await openid.user()
    await _password(employee, owner.email)
    await _connect(employee, openid, subject)
    assert (await employee.sign_in(company.link, subject))[0] == 303
    page = f"{ROOT}/account"
    status, _, _ = await employee.post(f"{page}/merchant", {"merchant_id": str(other)}, page)
    assert status == 404
    chosen = await services.db.value(
        """
        SELECT merchant_id FROM session
         WHERE person_id = $1 AND provider_merchant_id IS NOT NULL ORDER BY id DESC LIMIT 1""",
        owner.person_id,
    )
    assert chosen == company.provider.merchant_id


async def test_a_code_of_the_second_factor_is_still_needed(
    services: Services,
    company: CompanySetup,
    openid: OpenIdProvider,
    owner: SignedInUser,
    employee: CompanyBrowser,
) -> None:
    subject = await openid.user()
    await _password(employee, owner.email)
    await _connect(employee, openid, subject)
    app = await owner.enroll(services)
    _, _, to = await employee.sign_in(company.link + "?next=/dashboard/sandbox/payouts", subject)
    assert "/account/company/code?next=" in to
    for path in ("/sandbox/payments", "/sandbox/credentials", "/team", "/account"):
        assert "/account/company/code" in (await employee.get(ROOT + path))[2]
    secret = {"step_up_secret": "000000"}
    assert (await employee.post(to, secret, to))[0] == 403
    secret = {"step_up_secret": app.now()}
    assert (await employee.post(to, secret, to))[2].endswith("/dashboard/sandbox/payouts")
    assert (await employee.get(f"{ROOT}/sandbox/payments"))[0] == 200


async def test_production_money_needs_a_code_even_if_the_platform_does_not_require_one(
    services: Services,
    company: CompanySetup,
    openid: OpenIdProvider,
    owner: SignedInUser,
    employee: CompanyBrowser,
) -> None:
    subject = await openid.user()
    await _password(employee, owner.email)
    await _connect(employee, openid, subject)
    await employee.sign_in(company.link, subject)
    page = f"{ROOT}/production/credentials"
    status, text, _ = await employee.post(f"{page}/rotate", {}, f"{ROOT}/account")
    assert (status, "Second factor required" in text) == (403, True)


async def test_a_user_without_a_password_confirms_at_the_provider_and_finds_the_form_again(
    company: CompanySetup,
    openid: OpenIdProvider,
    employee: CompanyBrowser,
    services: Services,
) -> None:
    subject = await openid.user("developers")
    await employee.sign_in(company.link, subject)
    page = f"{ROOT}/sandbox/credentials/keys"
    fields = {"name": "Reports", "rights": "read"}
    _, text, _ = await employee.post(page, fields, f"{page}/new")
    confirm = re.findall(r'href="([^"]+company/confirm[^"]+)"', text)[0].replace("&amp;", "&")
    back = await employee.at_provider(await employee.start(confirm), subject)
    _, _, to = await employee.get(back)
    _, text, _ = await employee.get(to)
    assert 'value="Reports"' in text
    status, text, _ = await employee.post(page, fields, f"{page}/new")
    assert (status, "confirm" not in to) == (200, True)
    assert "API secret" in text


async def test_a_merchants_provider_does_not_keep_an_email_address_from_its_owner(
    company: CompanySetup, openid: OpenIdProvider, employee: CompanyBrowser, services: Services
) -> None:
    subject = await openid.user("developers", email=f"owner-of-{company.provider.key}@example.com")
    await employee.sign_in(company.link, subject)
    email = f"owner-of-{company.provider.key}@example.com".lower()
    await resets.ask(services.db, services.keyring, Realm.DASHBOARD, email)
    links = await services.db.number(
        "SELECT count(*) FROM password_reset r JOIN person p ON p.id = r.person_id"
        " WHERE p.email = $1",
        email,
    )
    assert links == 1


async def test_another_user_of_the_provider_cannot_confirm_the_identity(
    company: CompanySetup,
    openid: OpenIdProvider,
    employee: CompanyBrowser,
    site: Site,
    services: Services,
) -> None:
    subject, colleague = await openid.user("developers"), await openid.user("developers")
    await employee.sign_in(company.link, subject)
    confirm = f"{ROOT}/account/company/confirm?next=/dashboard/account"
    async with CompanyBrowser.of(site) as elsewhere:
        back = await elsewhere.at_provider(await employee.start(confirm), colleague)
    assert (await employee.get(back))[0] == 403
    stepped_up = await services.db.number(
        """
        SELECT count(*) FROM session
         WHERE provider_merchant_id = $1 AND stepped_up_at IS NOT NULL""",
        company.provider.merchant_id,
    )
    assert stepped_up == 0


async def test_an_old_authentication_at_the_provider_does_not_confirm_the_identity(
    company: CompanySetup, openid: OpenIdProvider, employee: CompanyBrowser
) -> None:
    subject = await openid.user("developers")
    await employee.sign_in(company.link, subject)
    confirm = f"{ROOT}/account/company/confirm?next=/dashboard/account"
    back = await employee.at_provider(await employee.start(confirm), subject)
    await openid.control(forgery={"claims": {"auth_time": 1}})
    assert (await employee.get(back))[0] == 403


async def test_required_sign_in_ends_passwords_except_for_the_break_glass_account(
    services: Services,
    site: Site,
    openid: OpenIdProvider,
    owner: SignedInUser,
    employee: CompanyBrowser,
) -> None:
    merchant_id = await _merchant_of(services, owner)
    viewer = await member(services, site, merchant_id, Role.VIEWER)
    assert (await viewer.get("/sandbox/payments")).status == 200
    setup = await set_up(
        *(services, site, openid, merchant_id),
        roles=GROUPS,
        is_required=True,
        break_glass=owner.email,
    )
    # The open session of a password has no access either, but its user can connect the account.
    assert (await viewer.get("/sandbox/payments")).status == 403
    subject = await openid.user()
    await _password(employee, viewer.email)
    assert (await employee.get(f"{ROOT}/sandbox/payments"))[0] == 403
    await _connect(employee, openid, subject)
    await employee.sign_in(setup.link, subject)
    assert (await employee.get(f"{ROOT}/sandbox/payments"))[0] == 200
    async with CompanyBrowser.of(site) as emergency:
        await _password(emergency, owner.email)
        assert (await emergency.get(f"{ROOT}/sandbox/payments"))[0] == 200
    entries = await services.db.number(
        "SELECT count(*) FROM audit WHERE action = 'sign_in.break_glass' AND merchant_id = $1",
        merchant_id,
    )
    assert entries == 1


async def test_a_password_does_not_replace_the_company_account_where_that_is_required(
    services: Services,
    site: Site,
    openid: OpenIdProvider,
    owner: SignedInUser,
    employee: CompanyBrowser,
) -> None:
    merchant_id = await _merchant_of(services, owner)
    finance = await member(services, site, merchant_id, Role.FINANCE)
    about = services, site, openid, merchant_id
    setup = await set_up(*about, is_required=True, break_glass=owner.email)
    subject = await openid.user()
    await _password(employee, finance.email)
    await _connect(employee, openid, subject)
    page, fields = f"{ROOT}/account", {"step_up_secret": PASSWORD}
    status, text, _ = await employee.post(f"{page}/company/disconnect", fields, page)
    assert (status, "with your company first" in text) == (403, True)
    await employee.sign_in(setup.link, subject)
    await employee.post(f"{page}/company/disconnect", fields, page)
    assert (await employee.get(page))[0] == 303


async def test_required_sign_in_needs_an_account_that_can_still_sign_in(
    services: Services, site: Site, openid: OpenIdProvider, owner: SignedInUser
) -> None:
    merchant_id = await _merchant_of(services, owner)
    viewer = await member(services, site, merchant_id, Role.VIEWER)
    for email in ("", "nobody@example.com", viewer.email):
        with pytest.raises(BadProvider, match="owner with a password"):
            await set_up(
                *(services, site, openid, merchant_id), is_required=True, break_glass=email
            )


async def test_an_owner_sets_up_company_sign_in_and_sees_the_secret_never_again(
    services: Services, openid: OpenIdProvider, owner: SignedInUser
) -> None:
    await owner.enroll(services)
    await owner.step_up(services)
    await services.db.execute(
        "UPDATE session SET second_factor = true WHERE person_id = $1", owner.person_id
    )
    page = (await owner.get("/company-sign-in")).body.decode()
    key = re.findall(r'name="key" value="([^"]+)"', page)[0]
    fields = {"key": key, "issuer": openid.issuer, "client_id": "manilla", "secret": "s3cret-1"}
    fields |= {"roles": "staff: viewer\nops:eu: developer", "groups_claim": "groups"}
    reply = await owner.post("/company-sign-in", fields)
    assert reply.status == 303, reply.body
    page = (await owner.get("/company-sign-in")).body.decode()
    assert "ops:eu: developer" in page
    assert f"/dashboard/sign-in/company/{key}/callback" in page
    assert "s3cret-1" not in page
    log = await services.db.value("SELECT string_agg(detail::text, '') FROM audit")
    assert "s3cret-1" not in log
    reply = await owner.post("/company-sign-in", {**fields, "issuer": "http://127.0.0.1:9"})
    assert b"cannot be reached" in reply.body
    reply = await owner.post("/company-sign-in/remove", {})
    assert reply.status == 303
    assert await providers.find(services.db, await _merchant_of(services, owner)) is None


async def test_a_second_person_approves_that_passwords_no_longer_work(
    services: Services, site: Site, openid: OpenIdProvider, owner: SignedInUser
) -> None:
    merchant_id = await _merchant_of(services, owner)
    await member(services, site, merchant_id, Role.FINANCE)
    await owner.enroll(services)
    await owner.step_up(services)
    await services.db.execute(
        "UPDATE session SET second_factor = true WHERE person_id = $1", owner.person_id
    )
    fields = {"key": providers.new_key(), "issuer": openid.issuer, "client_id": "manilla"}
    fields |= {"secret": "s3cret-2", "is_required": "on", "break_glass": owner.email}
    reply = await owner.post("/company-sign-in", fields)
    assert reply.status == 303, reply.body
    assert await providers.find(services.db, merchant_id) is None
    [waiting] = await approvals.waiting(services.db, team=merchant_id)
    assert (waiting.kind, "s3cret-2" in str(waiting.detail)) == ("sign_in_provider", False)
    page = await owner.get("/production/protection")
    assert b"Company sign-in" in page.body


async def test_a_second_administrator_approves_every_change_of_the_consoles_provider(
    services: Services, site: Site, openid: OpenIdProvider
) -> None:

    chief = await administrator(services, site, "chief@console.example")
    deputy = await administrator(services, site, "deputy@console.example")
    production = Approvals(services.db, services.keyring, is_production_mode=True)
    change = SignInProviderChange(
        merchant_id=providers.CONSOLE,
        key=providers.new_key(),
        issuer="https://login.example",
        client_id="manilla",
        secret="s3cret-3",
    )

    def acting_as(user: SignedInUser) -> Actor:
        return Actor(ActorKind.PERSON, user.person_id, user.email, Realm.CONSOLE)

    with acting(acting_as(chief)):
        asked = await changes.apply_or_ask(production, change)
    assert isinstance(asked, changes.ApprovalRequested)
    with acting(acting_as(chief)), pytest.raises(ApprovalNotAllowed):
        await approvals.approve(production, asked.approval_id)
    assert await providers.find(services.db, providers.CONSOLE) is None
    with acting(acting_as(deputy)):
        await approvals.approve(production, asked.approval_id)
    found = await providers.find(services.db, providers.CONSOLE)
    assert found is not None
    assert found.issuer == "https://login.example"


async def test_a_second_factor_that_a_provider_can_set_up_delays_approvals(
    services: Services,
    company: CompanySetup,
    openid: OpenIdProvider,
    employee: CompanyBrowser,
) -> None:
    subject = await openid.user("developers")
    await employee.sign_in(company.link, subject)
    await services.db.execute(
        "UPDATE membership SET approves_from = '-infinity' WHERE merchant_id = $1",
        company.provider.merchant_id,
    )
    await services.db.execute(
        "UPDATE session SET stepped_up_at = now() WHERE provider_merchant_id = $1",
        company.provider.merchant_id,
    )
    page = f"{ROOT}/account"
    _, text, _ = await employee.post(f"{page}/second-factor", {}, page)
    secret = re.findall(r'name="secret" value="([^"]+)"', text)[0]
    fields = {"code": pyotp.TOTP(secret).now(), "secret": secret}
    assert (await employee.post(f"{page}/second-factor/confirm", fields, page))[0] == 200
    waits = await services.db.value(
        """
        SELECT approves_from > now() + interval '23 hours' FROM membership m
          JOIN person p ON p.id = m.person_id WHERE p.email = $1""",
        f"{subject}@company.example",
    )
    assert waits


async def test_a_role_of_a_group_does_not_work_with_a_password(
    company: CompanySetup,
    openid: OpenIdProvider,
    employee: CompanyBrowser,
    services: Services,
    site: Site,
) -> None:
    """An employee who leaves has no group any more, but never signs in at the provider again."""
    subject = await openid.user("developers")
    await employee.sign_in(company.link, subject)
    email = f"{subject}@company.example"
    person = await persons.find(services.db, Realm.DASHBOARD, email)
    token = await resets.begin(services.db, services.keyring, person.id)
    await resets.use(services.db, Realm.DASHBOARD, token, PASSWORD)
    async with CompanyBrowser.of(site) as later:
        await _password(later, email)
        assert (await later.get(f"{ROOT}/sandbox/credentials"))[0] == 403
    await employee.sign_in(company.link, subject)
    assert (await employee.get(f"{ROOT}/sandbox/credentials"))[0] == 200
    page, fields = f"{ROOT}/account", {"step_up_secret": PASSWORD}
    status, text, _ = await employee.post(f"{page}/company/disconnect", fields, page)
    assert (status, "your company&#39;s groups" in text) == (403, True)
    # A role that people grant is not of the groups.
    merchant_id = company.provider.merchant_id
    await members.change_role(services.db, merchant_id, person.id, Role.FINANCE)
    async with CompanyBrowser.of(site) as later:
        await _password(later, email)
        assert (await later.get(f"{ROOT}/sandbox/payments"))[0] == 200


async def test_a_user_with_a_code_cannot_confirm_at_the_provider_instead(
    company: CompanySetup, openid: OpenIdProvider, employee: CompanyBrowser, services: Services
) -> None:
    subject = await openid.user("developers")
    await employee.sign_in(company.link, subject)
    confirm = f"{ROOT}/account/company/confirm?next=/dashboard/account"
    back = await employee.at_provider(await employee.start(confirm), subject)
    email = f"{subject}@company.example"
    await services.db.execute(
        "UPDATE person SET totp_sealed = 'x', totp_confirmed_at = now() WHERE email = $1", email
    )
    status, text, _ = await employee.get(back)
    assert (status, "with your code" in text) == (403, True)


async def test_a_disabled_user_does_not_join_again(
    company: CompanySetup, openid: OpenIdProvider, employee: CompanyBrowser, services: Services
) -> None:
    subject = await openid.user("developers")
    await employee.sign_in(company.link, subject)
    person = await persons.find(services.db, Realm.DASHBOARD, f"{subject}@company.example")
    await members.remove(services.db, company.provider.merchant_id, person.id)
    await persons.disable(services.db, person.id)
    assert (await employee.sign_in(company.link, subject))[0] == 403
    assert await members.merchants_of(services.db, person.id) == []


async def test_the_break_glass_account_stays_an_owner_until_the_operator_helps(
    services: Services, site: Site, openid: OpenIdProvider, owner: SignedInUser
) -> None:
    merchant_id = await _merchant_of(services, owner)
    viewer = await member(services, site, merchant_id, Role.VIEWER)
    await members.change_role(services.db, merchant_id, viewer.person_id, Role.OWNER)
    about = services, site, openid, merchant_id
    await set_up(*about, is_required=True, break_glass=owner.email)
    with pytest.raises(BreakGlassMember):
        await members.remove(services.db, merchant_id, owner.person_id)
    with pytest.raises(BreakGlassMember):
        await members.change_role(services.db, merchant_id, owner.person_id, Role.FINANCE)
    assert (await viewer.get("/sandbox/payments")).status == 403
    await providers.make_optional(services.db, merchant_id)
    assert (await viewer.get("/sandbox/payments")).status == 200
    await members.remove(services.db, merchant_id, owner.person_id)
    with pytest.raises(NoProvider):
        await providers.make_optional(services.db, merchant_id)


async def test_checks_of_providers_that_fail_are_limited(
    services: Services, owner: SignedInUser
) -> None:
    await owner.enroll(services)
    await owner.step_up(services)
    await services.db.execute(
        "UPDATE session SET second_factor = true WHERE person_id = $1", owner.person_id
    )
    fields = {"key": providers.new_key(), "issuer": "http://127.0.0.1:9", "client_id": "manilla"}
    fields |= {"secret": "s3cret-4"}
    bodies = [
        (await owner.post("/company-sign-in", fields)).body for _ in range(throttle.PER_ADDRESS + 1)
    ]
    assert b"cannot be reached" in bodies[0]
    assert b"Too many attempts" in bodies[-1]


async def test_a_merchants_provider_does_not_change_the_users_account_elsewhere(
    company: CompanySetup,
    openid: OpenIdProvider,
    owner: SignedInUser,
    employee: CompanyBrowser,
    services: Services,
    site: Site,
) -> None:
    other = (await new_merchant(site, services.db, services.keyring)).new.id
    async with services.db.transaction() as connection:
        await members.join(connection, other, owner.person_id, Role.OWNER)
    await services.db.execute(
        "UPDATE session SET merchant_id = $1, user_agent = 'elsewhere' WHERE person_id = $2",
        *(other, owner.person_id),
    )
    subject = await openid.user()
    await _password(employee, owner.email)
    await _connect(employee, openid, subject)
    async with CompanyBrowser.of(site) as impostor:
        await impostor.sign_in(company.link, subject)
        page = f"{ROOT}/account"
        assert "elsewhere" not in (await impostor.get(page))[1]
        for path in ("sessions/end-others", "email"):
            _, text, _ = await impostor.post(f"{page}/{path}", {}, page)
            assert "Confirm your identity" in text
    assert (await owner.get("/account")).status == 200


async def test_a_secret_is_never_sent_to_an_issuer_that_was_replaced(
    company: CompanySetup, services: Services
) -> None:
    old = msgspec.structs.replace(company.provider, issuer="https://old.example")
    with pytest.raises(NoProvider):
        await providers.secret(services.db, services.keyring, old)
    assert await providers.secret(services.db, services.keyring, company.provider)
