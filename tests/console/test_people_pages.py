"""Adding, changing and disabling console users. Every change requires a step-up."""

import re

from manilla.audit import audit
from manilla.audit.audit import AuditFilter
from manilla.people import persons
from manilla.people.roles import ConsoleRole
from manilla.services import Services
from tests.console.conftest import PopulatedConsole
from tests.support.client import Site
from tests.web.signed_in_user import SignedInUser, administrator, member


async def test_a_user_is_added_by_a_link_that_is_shown_once(
    services: Services, populated: PopulatedConsole, site: Site
) -> None:
    visitor = populated.administrator
    await visitor.step_up(services)
    form = {"name": "Chidi", "email": "chidi@console.example", "role": "operations"}
    page = (await visitor.post("/people/add", form)).body.decode()
    found = re.search(r"/console(/invitation/[A-Za-z0-9_-]+)", page)
    assert found
    assert (await site.send("GET", "/console" + found.group(1))).status == 200
    again = (await visitor.get("/people")).body.decode()
    assert "chidi@console.example" in again
    assert "/invitation/" not in again
    [line] = await audit.list_entries(services.db, AuditFilter(action="person.create"), limit=1)
    assert line.detail == {"realm": "console", "email": form["email"], "role": "operations"}
    assert line.actor_name == visitor.email
    twice = await visitor.post("/people/add", form)
    assert "user with this email address already exists" in await visitor.follow(twice)
    chidi = line.subject.removeprefix("person:")
    renewed = (await visitor.post(f"/people/{chidi}/link", {})).body.decode()
    assert "/console/invitation/" in renewed
    assert (await site.send("GET", "/console" + found.group(1))).status == 404


async def test_a_changed_role_applies_to_the_next_request(
    services: Services, site: Site, populated: PopulatedConsole
) -> None:
    visitor = populated.administrator
    await visitor.step_up(services)
    dayo = await administrator(services, site, "dayo@console.example", ConsoleRole.SUPPORT)
    one = f"/people/{dayo.person_id}"
    assert (await dayo.get("/people")).status == 403
    assert (await visitor.post(one + "/role", {"role": "administrator"})).status == 303
    assert (await dayo.get("/people")).status == 200
    assert (await visitor.post(one + "/role", {"role": "king"})).status == 400
    assert (await visitor.post(one + "/sign-out", {})).status == 303
    assert (await dayo.get("/people")).status == 303
    assert "/console/reset/" in (await visitor.post(one + "/link", {})).body.decode()
    for path, status in (("/disable", "disabled"), ("/enable", "active")):
        assert (await visitor.post(one + path, {})).status == 303
        assert (await persons.get(services.db, dayo.person_id)).status == status
    lines = await audit.list_entries(services.db, AuditFilter(subject=f"person:{dayo.person_id}"))
    assert [line.action for line in lines] == [
        "person.enable",
        "person.disable",
        "person.reset_link",
        "person.sign_out",
        "person.role",
        "person.create",
    ]


async def test_a_lost_second_factor_is_reset(
    services: Services, site: Site, populated: PopulatedConsole
) -> None:
    visitor = populated.administrator
    await visitor.step_up(services)
    efe = await administrator(services, site, "efe@console.example", ConsoleRole.SUPPORT)
    await services.db.execute(
        "UPDATE person SET totp_sealed = 'x', totp_confirmed_at = now() WHERE id = $1",
        efe.person_id,
    )
    reply = await visitor.post(f"/people/{efe.person_id}/second-factor-off", {})
    assert "second factor removed" in await visitor.follow(reply)
    assert not (await persons.get(services.db, efe.person_id)).has_totp


async def test_merchant_users_are_not_managed_in_the_console(
    services: Services, site: Site, populated: PopulatedConsole
) -> None:
    visitor = populated.administrator
    await visitor.step_up(services)
    owner = await member(services, site, populated.merchant.new.id)
    for number in (owner.person_id, 10**6, 10**30):
        for path in ("disable", "enable", "sign-out", "second-factor-off", "link"):
            assert (await visitor.post(f"/people/{number}/{path}", {})).status == 404
    assert (await owner.get("/sandbox")).status == 200


async def test_each_change_needs_a_step_up(services: Services, populated: PopulatedConsole) -> None:
    await services.db.execute(
        "UPDATE session SET stepped_up_at = NULL WHERE person_id = $1",
        populated.administrator.person_id,
    )
    form = {"name": "Nobody", "email": "nobody@console.example", "role": "administrator"}
    asked = await populated.administrator.post("/people/add", form)
    assert b"Confirm your identity" in asked.body
    assert b"nobody@console.example" not in (await populated.administrator.get("/people")).body


async def test_in_production_a_second_factor_is_required(
    services: Services, production_site: Site
) -> None:
    plain = await administrator(services, production_site, "plain@console.example")
    for path in ("/", "/merchants", "/people", "/audit", "/approvals"):
        reply = await plain.get(path)
        assert reply.status == 403, path
        assert b"A second factor is required" in reply.body
        assert b'href="/console/account">Your account' in reply.body
    # The pages for enrolling a second factor remain accessible.
    assert (await plain.get("/account")).status == 200
    assert (await plain.post("/merchants/new", {"name": "x"})).status == 403
    await plain.enroll(services)
    assert (await plain.get("/people")).status == 200


async def test_in_production_an_administrator_cannot_create_their_own_approver(
    services: Services, site: Site, in_production: dict[str, SignedInUser]
) -> None:
    visitor, support = in_production["administrator"], in_production["support"]
    form = {"name": "A puppet", "email": "puppet@console.example"}
    refused = [("/people/add", {**form, "role": role}) for role in ("administrator", "operations")]
    refused.append((f"/people/{support.person_id}/role", {"role": "operations"}))
    for name in ("second", "operations"):
        one = f"/people/{in_production[name].person_id}"
        refused += [(one + "/link", {}), (one + "/second-factor-off", {})]
    for path, fields in refused:
        reply = await visitor.post(path, fields)
        assert "only the operator can do this" in await visitor.follow(reply), path
    page = (await visitor.get("/people")).body.decode()
    assert f"/people/{in_production['second'].person_id}/link" not in page
    # Support users can neither request nor approve changes, so adding one needs no approval.
    # Reducing a user's permissions needs no approval either.
    added = await visitor.post("/people/add", {**form, "role": "support"})
    assert "/console/invitation/" in added.body.decode()
    efe = await administrator(services, site, "lower@console.example")
    lower = await visitor.post(f"/people/{efe.person_id}/role", {"role": "operations"})
    assert "role changed to operations" in await visitor.follow(lower)


async def test_the_last_administrator_who_can_sign_in_cannot_be_removed(
    services: Services, people: dict[ConsoleRole, SignedInUser]
) -> None:
    visitor = people[ConsoleRole.ADMINISTRATOR]
    await visitor.step_up(services)
    others = "console_role = 'administrator' AND status = 'active' AND id <> $1"
    await services.db.execute(
        f"UPDATE person SET status = 'disabled', phone = 'away' WHERE {others}", visitor.person_id
    )
    try:
        for path, form in (("disable", {}), ("role", {"role": "support"})):
            reply = await visitor.post(f"/people/{visitor.person_id}/{path}", form)
            assert "the last administrator" in await visitor.follow(reply)
    finally:
        await services.db.execute(
            "UPDATE person SET status = 'active', phone = NULL WHERE phone = 'away'"
        )
