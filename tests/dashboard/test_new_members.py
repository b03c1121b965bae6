"""A new team member cannot approve payouts, because the inviter could use the member's login."""

import pytest

from manilla.bulk import batches
from manilla.kit.environment import Environment
from manilla.ledger.scope import Tenant
from manilla.people import invitations, members
from manilla.people.roles import Realm, Role
from manilla.people.second_person import Decider, TooNewToApprove
from manilla.services import Services
from tests.dashboard.merchant_dashboard import MerchantDashboard, new_dashboard
from tests.mail.outbox_reader import letters_to
from tests.support.client import Site
from tests.web.signed_in_user import PASSWORD, member

PROTECTION = "/sandbox/protection"


async def _invite(dashboard: MerchantDashboard, role: Role = Role.FINANCE) -> Decider:
    """Adds a team member through an invitation link, which an owner can do alone."""
    services, merchant_id = dashboard.services, dashboard.merchant.new.id
    email = f"invented-{merchant_id}@example.com"
    token = await invitations.invite(
        services.db, services.keyring, dashboard.owner.person_id, merchant_id, email, role
    )
    session = await invitations.accept(
        *(services.db, Realm.DASHBOARD, token),
        name="Invented",
        password=PASSWORD,
        address="127.0.0.1",
        user_agent="tests",
    )
    return Decider(session.person_id, email)


async def _ask(dashboard: MerchantDashboard) -> str:
    """Creates a production payout that needs a second person's approval. Returns its batch."""
    await dashboard.services.db.execute(
        """
        INSERT INTO payout_batch (merchant_id, id, environment, status, method_id, method_name,
               currency, file_name, uploaded_by, kind, asked_by_id, asked_by, expires_at)
        VALUES ($1, 'ASK-1', 'production', 'asked', $2, 'Transfer', 'NGN', 'Payout 1', $3,
               'single', $4, $3, now() + interval '1 day')""",
        *(dashboard.merchant.new.id, await dashboard.method_id(), dashboard.owner.email),
        dashboard.owner.person_id,
    )
    await dashboard.services.db.execute(
        """
        INSERT INTO payout_batch_row (merchant_id, batch_id, number, state, amount_text,
               amount_minor, fee_minor, bank_code, account_number, name, ref_trx, description)
        VALUES ($1, 'ASK-1', 1, 'ready', '100', 10000, 0, '058', '0123456789', 'Ada', 'A-1', '')""",
        dashboard.merchant.new.id,
    )
    return "ASK-1"


async def test_a_new_member_cannot_approve_for_24_hours(services: Services, site: Site) -> None:
    dashboard = await new_dashboard(services, site)
    tenant = Tenant(dashboard.merchant.new.id, Environment.PRODUCTION)
    invented, batch_id = await _invite(dashboard), await _ask(dashboard)
    with pytest.raises(TooNewToApprove, match="Wait until"):
        await batches.approve(services.db, tenant, batch_id, by=invented)
    assert "Can approve from" in (await dashboard.owner.get("/team")).body.decode()
    page = f"/production/payouts/bulk/{batch_id}"
    requester = (await dashboard.owner.get(page)).body.decode()
    assert f"<li>{invented.email}, from <time" in requester

    await _let_a_day_pass(dashboard)
    # The approval is now allowed, and fails only because no audit entry has these rows.
    with pytest.raises(batches.BatchAltered):
        await batches.approve(services.db, tenant, batch_id, by=invented)
    assert "Can approve from" not in (await dashboard.owner.get("/team")).body.decode()


async def _let_a_day_pass(dashboard: MerchantDashboard) -> None:
    await dashboard.services.db.execute(
        "UPDATE membership SET approves_from = approves_from - interval '24 hours'"
        " WHERE merchant_id = $1",
        dashboard.merchant.new.id,
    )


async def test_a_viewer_who_becomes_a_finance_member_waits_too(
    services: Services, site: Site
) -> None:
    dashboard = await new_dashboard(services, site)
    tenant = Tenant(dashboard.merchant.new.id, Environment.PRODUCTION)
    invented, batch_id = await _invite(dashboard, Role.VIEWER), await _ask(dashboard)
    await _let_a_day_pass(dashboard)
    await members.change_role(services.db, tenant.merchant_id, invented.person_id, Role.FINANCE)
    with pytest.raises(TooNewToApprove):
        await batches.approve(services.db, tenant, batch_id, by=invented)


async def test_a_new_member_cannot_approve_a_weaker_protection(
    services: Services, site: Site
) -> None:
    dashboard = await new_dashboard(services, site)
    old = await member(services, site, dashboard.merchant.new.id, Role.FINANCE)
    await dashboard.owner.post(f"{PROTECTION}/threshold", {"currency": "NGN", "amount": "1000"})
    await dashboard.owner.post(f"{PROTECTION}/threshold", {"currency": "NGN", "amount": ""})
    await services.db.execute(
        "UPDATE membership SET approves_from = now() + interval '1 hour' WHERE person_id = $1",
        old.person_id,
    )
    number = await services.db.value(
        "SELECT max(id) FROM approval WHERE merchant_id = $1", dashboard.merchant.new.id
    )
    path = f"/protection/changes/{number}/approve"
    reply = await old.post(path, {"environment": "sandbox"})
    assert reply.status == 303, "the page asks for a password first"
    shown = await old.follow(reply)
    assert "New members cannot approve yet." in shown
    assert "you can approve changes from" in shown
    assert 'value="1000' in (await old.get(PROTECTION)).body.decode()


async def test_an_owner_who_removes_the_second_person_cannot_weaken_the_protection_at_once(
    services: Services, site: Site
) -> None:
    dashboard = await new_dashboard(services, site)
    finance = await member(services, site, dashboard.merchant.new.id, Role.FINANCE)
    form = {"currency": "NGN", "amount": "1000"}
    await dashboard.owner.post(f"{PROTECTION}/threshold", form)
    await dashboard.owner.post(f"/team/{finance.person_id}/remove", {})
    reply = await dashboard.owner.post(f"{PROTECTION}/threshold", {"currency": "NGN", "amount": ""})
    assert "left your team in the last 24 hours" in await dashboard.owner.follow(reply)
    assert 'value="1000' in (await dashboard.owner.get(PROTECTION)).body.decode()


async def test_all_owners_get_an_email_about_a_changed_team(services: Services, site: Site) -> None:
    dashboard = await new_dashboard(services, site)
    merchant_id = dashboard.merchant.new.id
    other = await members.add(
        services.db,
        merchant_id,
        email=f"other-{merchant_id}@example.com",
        name="Other",
        role=Role.OWNER,
        password=PASSWORD,
    )
    invented = await _invite(dashboard)
    await members.change_role(services.db, merchant_id, invented.person_id, Role.OWNER)
    await members.remove(services.db, merchant_id, invented.person_id)
    letters = await letters_to(services.db, services.letters, other.email)
    texts = [each.text for each in letters if each.subject.startswith("The team of")]
    said = ("invited", "joined as finance", "from finance to owner", "removed")
    assert all(any(word in text for text in texts) for word in said), texts
    joined = await services.db.value(
        "SELECT detail::text FROM audit WHERE merchant_id = $1 AND action = 'member.join'",
        merchant_id,
    )
    assert "approves_from" in joined
