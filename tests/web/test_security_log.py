"""The log, the audit log and the metrics record sign-ins, step-ups, denied access and exports."""

import re
from typing import Any

import pytest
from structlog.testing import capture_logs

from manilla.kit import prometheus
from manilla.people import second_factor, security_log
from manilla.people.roles import Role
from manilla.services import Services
from tests.support.client import Merchant, Site, new_merchant
from tests.web.http_browser import HttpBrowser
from tests.web.signed_in_user import PASSWORD, SignedInUser, member

WRONG = "three wrong kobo coins"


@pytest.fixture
async def merchant(site: Site, services: Services) -> Merchant:
    return await new_merchant(site, services.db, services.keyring)


@pytest.fixture
async def owner(site: Site, services: Services, merchant: Merchant) -> SignedInUser:
    return await member(services, site, merchant.new.id)


async def audited(services: Services, subject: str, action: str) -> list[dict[str, Any]]:
    records = await services.db.records(
        """
        SELECT detail ->> 'outcome' AS outcome, detail ->> 'address' AS address, detail
          FROM audit WHERE subject = $1 AND action = $2 ORDER BY id""",
        subject,
        action,
    )
    return [dict(record) for record in records]


def counted(event: str, outcome: str, realm: str = "dashboard") -> float:
    labels = f'event="{event}",outcome="{outcome}",realm="{realm}"'
    found = re.search(
        rf"^manilla_security_events_total\{{{re.escape(labels)}\}} (\S+)$",
        prometheus.render().decode(),
        re.MULTILINE,
    )
    return float(found.group(1)) if found else 0


async def test_sixty_wrong_passwords_from_one_ip_appear_in_log_audit_and_metrics(
    site: Site, services: Services, owner: SignedInUser
) -> None:
    before = counted("sign_in", "wrong_password"), counted("sign_in", "locked_out")
    async with HttpBrowser.of(site) as guest:
        csrf = (await guest.get("/sign-in")).csrf
        with capture_logs() as logs:
            for _ in range(60):
                fields = {"email": owner.email, "password": WRONG, "csrf": csrf}
                await guest.post("/sign-in", fields)
        mine = guest.address
    lines = [line for line in logs if line["event"] == "sign_in"]
    assert [line["outcome"] for line in lines] == ["wrong_password"] * 10 + ["locked_out"] * 50
    known = {(line["person_id"], line["email"], line["address"]) for line in lines}
    assert known == {(owner.person_id, owner.email, mine)}
    assert WRONG not in repr(logs)
    kept = await audited(services, f"person:{owner.person_id}", "sign_in.failed")
    # Failed sign-ins lock the IP address out of this account first, and later out of every account.
    assert [line["outcome"] for line in kept] == ["wrong_password"] * 10 + ["locked_out"] * 2
    assert {line["address"] for line in kept} == {mine}
    # Use `>=`, because parallel test processes share these counters.
    assert counted("sign_in", "wrong_password") >= before[0] + 10
    assert counted("sign_in", "locked_out") >= before[1] + 50


async def test_wrong_passwords_from_many_ips_are_logged_with_each_ip(
    site: Site, services: Services, owner: SignedInUser
) -> None:
    addresses = []
    for _ in range(3):
        async with HttpBrowser.of(site) as guest:
            await guest.sign_in(owner.email, WRONG)
            addresses.append(guest.address)
    kept = await audited(services, f"person:{owner.person_id}", "sign_in.failed")
    assert [line["address"] for line in kept] == addresses


async def test_unknown_emails_are_logged_without_what_was_typed_and_limited_in_the_audit_log(
    site: Site, services: Services
) -> None:
    typed = "my.p@ssword"
    async with HttpBrowser.of(site) as guest:
        with capture_logs() as logs:
            assert (await guest.sign_in(typed, WRONG)).status == 401
        [line] = [line for line in logs if line["event"] == "sign_in"]
        assert (line["outcome"], line["person_id"], line["email"]) == (
            "unknown_account",
            None,
            None,
        )
        assert line["address"] == guest.address
        subject = "sign_in:dashboard"
        kept = await audited(services, subject, "sign_in.failed")
        assert kept[-1]["address"] == guest.address
        assert typed not in repr(logs) + repr(kept)
        bucket = "slow:audit:unknown"
        set_used = "UPDATE rate_window SET used = $2 WHERE bucket = $1"
        more = []
        for used in (security_log.FAILURES_OF_UNKNOWN_MAX, 99, 100, 999):
            await services.db.execute(set_used, bucket, used)
            await guest.sign_in("nobody@example.com", WRONG)
            more.append(len(await audited(services, subject, "sign_in.failed")) - len(kept))
        # Above the limit, the audit log records only the 100th and the 1000th failure.
        assert more == [0, 1, 1, 2]
        await services.db.execute(set_used, bucket, 0)


async def test_successful_sign_ins_codes_and_step_ups_are_logged(
    site: Site, services: Services, owner: SignedInUser
) -> None:
    with capture_logs() as logs:
        app = await owner.enroll(services)
        async with HttpBrowser.of(site) as guest:
            await guest.sign_in(owner.email, PASSWORD)
        await owner.post("/sandbox/credentials/rotate", {"step_up_secret": "000000"})
        await owner.post("/sandbox/credentials/rotate", {"step_up_secret": app.now()})
        await second_factor.remove(services.db, owner.person_id)
    events = [(line["event"], line["outcome"]) for line in logs if "outcome" in line]
    assert events == [
        ("second_factor", "turned_on"),
        ("sign_in", "code_needed"),
        ("step_up", "wrong_code"),
        ("step_up", "done"),
        ("second_factor", "turned_off"),
    ]
    assert app.secret not in repr(logs)
    [line] = await audited(services, f"person:{owner.person_id}", "step_up.failed")
    assert (line["outcome"], line["address"]) == ("wrong_code", site.address)


async def test_a_denied_permission_is_logged_and_counted(
    site: Site, services: Services, merchant: Merchant
) -> None:
    viewer = await member(services, site, merchant.new.id, Role.VIEWER)
    before = counted("permission", "refused")
    with capture_logs() as logs:
        assert (await viewer.get("/sandbox/credentials")).status == 403
    [line] = [line for line in logs if line["event"] == "permission"]
    assert (line["person_id"], line["address"], line["code"], line["path"]) == (
        viewer.person_id,
        site.address,
        "NOT_ALLOWED",
        "/dashboard/sandbox/credentials",
    )
    assert counted("permission", "refused") >= before + 1


async def test_an_export_is_logged_with_who_exported_what(
    site: Site, services: Services, owner: SignedInUser, merchant: Merchant
) -> None:
    before = counted("export", "done")
    with capture_logs() as logs:
        assert (await owner.get("/sandbox/payments?format=csv")).status == 200
    [line] = [line for line in logs if line["event"] == "export"]
    assert (line["person_id"], line["file"], line["format"]) == (
        owner.person_id,
        "payments",
        "csv",
    )
    found = await services.db.record(
        """
        SELECT subject, actor_id, detail ->> 'format' AS format, detail ->> 'address' AS address
          FROM audit WHERE merchant_id = $1 AND action = 'export.create'""",
        merchant.new.id,
    )
    assert dict(found) == {
        "subject": "export:payments",
        "actor_id": owner.person_id,
        "format": "csv",
        "address": site.address,
    }
    assert counted("export", "done") >= before + 1


async def test_a_user_locked_out_by_a_stranger_can_sign_in_from_a_known_browser(
    site: Site, services: Services, owner: SignedInUser
) -> None:
    async with HttpBrowser.of(site) as mine:
        assert (await mine.sign_in(owner.email, PASSWORD)).status == 303
        assert mine.cookie("manilla_device_dashboard")
        mine.give_cookie("manilla_dashboard", "")
        async with HttpBrowser.of(site) as stranger:
            stranger.move_to(mine.address)
            replies = [await stranger.sign_in(owner.email, WRONG) for _ in range(11)]
            assert [reply.status for reply in replies] == [401] * 10 + [429]
            assert (await stranger.sign_in(owner.email, PASSWORD)).status == 429
        assert (await mine.sign_in(owner.email, PASSWORD)).status == 303


async def test_a_user_over_the_limit_can_sign_in_with_a_code(
    site: Site, services: Services, owner: SignedInUser
) -> None:
    app = await owner.enroll(services)
    async with HttpBrowser.of(site) as guest:
        for _ in range(11):
            reply = await guest.sign_in(owner.email, WRONG)
        assert reply.status == 429
        form = await guest.sign_in(owner.email, PASSWORD)
        assert (form.status, "you can sign in now with its code" in form.text) == (429, True)
        fields = dict(re.findall(r'name="(csrf|ticket|next)" value="([^"]*)"', form.text))
        entered = await guest.post("/sign-in/code", {**fields, "code": app.now()})
        assert (entered.status, entered.headers["Location"]) == (303, "/dashboard/")
