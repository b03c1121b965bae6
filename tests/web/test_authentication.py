"""Sign-in, sessions and redirects in the dashboard and the console, over HTTP."""

import re
from urllib.parse import urlencode

import aiohttp
import msgspec
import pytest

from manilla.dashboard import routes as dashboard
from manilla.pages import app as pages
from manilla.people import members, sessions
from manilla.people.roles import Role
from manilla.services import Services
from tests.conftest import serving
from tests.support.client import Merchant, Site, new_merchant
from tests.web.http_browser import HttpBrowser
from tests.web.signed_in_user import PASSWORD, SignedInUser, member

FORM = "application/x-www-form-urlencoded"


@pytest.fixture(scope="module")
async def merchant(site: Site, services: Services) -> Merchant:
    return await new_merchant(site, services.db, services.keyring)


@pytest.fixture(scope="module")
async def owner(site: Site, services: Services, merchant: Merchant) -> SignedInUser:
    return await member(services, site, merchant.new.id)


async def _developer(services: Services, site: Site, merchant: Merchant) -> SignedInUser:
    await services.db.execute(
        "DELETE FROM membership m USING person p WHERE p.id = m.person_id AND p.email = $1",
        f"developer-{merchant.new.id}@example.com",
    )
    return await member(services, site, merchant.new.id, Role.DEVELOPER)


async def test_sign_in_attempts_are_limited_and_the_page_shows_for_how_long(
    site: Site, merchant: Merchant
) -> None:
    async with HttpBrowser.of(site) as guest:
        replies = [await guest.sign_in("guessed@example.com", "wrong") for _ in range(11)]
    assert [reply.status for reply in replies] == [401] * 10 + [429]
    assert "Too many attempts. Please wait a while and try again." in replies[-1].text
    assert 0 < int(replies[-1].headers["Retry-After"]) <= 15 * 60
    assert "wrong" not in replies[-1].text


async def test_no_response_reveals_who_has_an_account(site: Site, owner: SignedInUser) -> None:
    async with HttpBrowser.of(site) as guest:
        known = await guest.sign_in(owner.email, "three wrong kobo coins")
        unknown = await guest.sign_in("nobody@example.com", "three wrong kobo coins")
        assert (known.status, unknown.status) == (401, 401)
        assert known.text.replace(owner.email, "nobody@example.com") == unknown.text
        reply = await guest.post("/forgot", {"email": owner.email})
        assert reply.text == (await guest.post("/forgot", {"email": "nobody@example.com"})).text


async def test_a_cookie_set_before_sign_in_never_becomes_the_session(
    site: Site, owner: SignedInUser, services: Services
) -> None:
    async with HttpBrowser.of(site) as guest:
        guest.give_cookie("manilla_dashboard", "planted")
        before = (await guest.get("/sign-in")).csrf
        entered = await guest.sign_in(owner.email, PASSWORD)
        assert (entered.status, entered.headers["Location"]) == (303, "/dashboard/")
        token = guest.cookie("manilla_dashboard")
        assert token not in (None, "planted", guest.cookie("manilla_visit"))
        cookie = entered.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "samesite=lax" in cookie.lower()
        assert await sessions.find(services.db, owner.realm, "planted") is None
        # A CSRF token from a form that was rendered without a session is invalid within a session.
        assert (await guest.post("/sign-out", {"csrf": before})).status == 403
        inside = (await guest.get("/account")).csrf
        assert (await guest.post("/sign-out", {"csrf": inside})).status == 303
        guest.give_cookie("manilla_dashboard", token or "")
        assert (await guest.get("/account")).headers["Location"].startswith("/dashboard/sign-in")


@pytest.mark.parametrize(
    ("wanted", "followed"),
    [
        ("/dashboard/sandbox/payments?q=a%20b", "/dashboard/sandbox/payments?q=a%20b"),
        ("//evil.example", None),
        ("/\\evil.example", None),
        ("https://evil.example/", None),
        ("/dashboard/../..//evil.example", None),
        ("/dashboard/%2E%2e/console/", None),
        ("/dashboard\\..\\evil", None),
        ("/dashboard/\r\nSet-Cookie: a=b", None),
        ("/dashboard/\tx", None),
        ("/dashboard/ẹ", None),
        ("/dashboardevil", None),
        ("javascript:alert(1)", None),
    ],
)
async def test_sign_in_redirects_only_within_its_realm(
    site: Site, owner: SignedInUser, wanted: str, followed: str | None
) -> None:
    async with HttpBrowser.of(site) as guest:
        entered = await guest.sign_in(owner.email, PASSWORD, wanted)
    assert (entered.status, entered.headers["Location"]) == (303, followed or "/dashboard/")


async def test_sign_in_returns_to_the_requested_page(site: Site, owner: SignedInUser) -> None:
    async with HttpBrowser.of(site) as guest:
        sent = await guest.get("/sandbox/payments?q=a%26b")
        assert sent.headers["Location"] == (
            "/dashboard/sign-in?next=%2Fdashboard%2Fsandbox%2Fpayments%3Fq%3Da%2526b"
        )
        form = await guest.get(sent.headers["Location"].removeprefix("/dashboard"))
        assert 'name="next" value="/dashboard/sandbox/payments?q=a%26b"' in form.text
        assert (await guest.get("/sandbox/payments?q=" + "x" * 3000)).status == 303


async def test_a_session_ended_elsewhere_ends_immediately(
    site: Site, owner: SignedInUser, services: Services
) -> None:
    async with HttpBrowser.of(site) as guest:
        await guest.sign_in(owner.email, PASSWORD)
        account = await guest.get("/account")
        [mine] = re.findall(r"This session", account.text)
        assert mine
        [number] = await services.db.records(
            "SELECT max(id) AS id FROM session WHERE person_id = $1", owner.person_id
        )
        await owner.post(f"/account/sessions/{number['id']}/end", {})
        assert (await guest.get("/account")).status == 303
    assert (await owner.get("/account")).status == 200


async def test_a_user_ends_the_other_sessions_and_changes_the_password(
    site: Site, services: Services
) -> None:
    owner = await _new_owner(site, services)
    async with HttpBrowser.of(site) as other:
        for path, fields in (
            ("/account/sessions/end-others", {}),
            ("/account/password", {"old": PASSWORD, "new": "five new naira notes"}),
        ):
            await other.sign_in(owner.email, PASSWORD)
            assert (await other.get("/account")).status == 200
            assert (await owner.post(path, fields)).status == 303
            assert (await other.get("/account")).status == 303, path
        assert (await owner.get("/account")).status == 200
        assert (await other.sign_in(owner.email, PASSWORD)).status == 401
        assert (await other.sign_in(owner.email, "five new naira notes")).status == 303


async def test_new_recovery_codes_need_a_step_up(site: Site, services: Services) -> None:
    owner = await _new_owner(site, services)
    await owner.enroll(services)
    asked = await owner.post("/account/recovery-codes", {})
    assert b"Confirm your identity" in asked.body
    await owner.step_up(services)
    shown = await owner.post("/account/recovery-codes", {})
    assert shown.body.count(b"<code>") == 10


async def _new_owner(site: Site, services: Services) -> SignedInUser:
    merchant = await new_merchant(site, services.db, services.keyring)
    return await member(services, site, merchant.new.id)


async def test_a_changed_role_and_a_removed_member_take_effect_immediately(
    site: Site, owner: SignedInUser, merchant: Merchant, services: Services
) -> None:
    developer = await _developer(services, site, merchant)
    assert (await developer.get("/sandbox/credentials")).status == 200
    await owner.step_up(services)
    await owner.post(f"/team/{developer.person_id}/role", {"role": "viewer"})
    assert (await developer.get("/sandbox/credentials")).status == 403
    assert (await developer.get("/sandbox")).status == 200
    await owner.post(f"/team/{developer.person_id}/remove", {})
    assert (await developer.get("/sandbox")).status == 303
    assert developer.email not in str(
        [each.email for each in await members.list_of(services.db, merchant.new.id)]
    )


async def test_a_step_up_expires(
    owner: SignedInUser, merchant: Merchant, services: Services
) -> None:
    path, wish = "/sandbox/credentials/rotate", {"overlap_minutes": "60"}

    async def generations() -> int:
        number: int = await services.db.value(
            "SELECT count(*) FROM credential WHERE merchant_id = $1 AND environment = 'sandbox'",
            merchant.new.id,
        )
        return number

    await owner.step_up(services)
    await services.db.execute(
        "UPDATE session SET stepped_up_at = now() - interval '10 minutes 1 second'"
        " WHERE person_id = $1",
        owner.person_id,
    )
    asked = await owner.post(path, wish)
    assert asked.status == 200
    assert b"Confirm your identity" in asked.body
    assert b'name="overlap_minutes" value="60"' in asked.body
    wrong = await owner.post(path, {**wish, "step_up_secret": "guess-7319"})
    assert wrong.status == 403
    assert b"guess-7319" not in wrong.body
    assert await generations() == 1
    shown = await owner.post(path, {**wish, "step_up_secret": PASSWORD})
    assert b"shown only once" in shown.body
    assert await generations() == 2
    await services.db.execute(
        "UPDATE session SET stepped_up_at = NULL WHERE person_id = $1", owner.person_id
    )
    turned_off = await owner.post("/account/second-factor/off", {"step_up_secret": PASSWORD})
    # Entering the password in the form counts as a step-up for the same request.
    assert turned_off.status == 303


async def test_malformed_forms_are_rejected(site: Site, owner: SignedInUser) -> None:
    csrf = (await owner.csrf()).encode()
    headers = {**owner.headers(), "Content-Type": FORM}
    parted = {**owner.headers(), "Content-Type": "multipart/form-data; boundary=x"}
    path = "/dashboard/profile"

    async def status(body: bytes, sent: dict[str, str] = headers) -> int:
        reply = await site.send("POST", path, sent, body)
        assert reply.headers["content-type"].startswith("text/html"), body
        return reply.status

    assert await status(b"csrf=" + csrf + b"&name=" + b"x" * 70_000) == 413
    assert await status(b"csrf=" + csrf + b"&name=a%00b") == 400
    assert await status(b"csrf=" + csrf + b"&name=" + b"x" * 21_000) == 400
    assert await status(b"csrf=%C3%A9&name=a") == 403
    assert await status(b"\xff\xfe=&&&===%%%", headers) == 403
    assert await status(b"--x\r\nContent-Disposition: form-data\r\n\r\n", parted) in (400, 403)
    assert await status(b'{"csrf": 1}', {**headers, "Content-Type": "application/json"}) == 403
    # Invalid UTF-8 becomes a replacement character, and never causes a server error.
    reply = await site.send("POST", path, headers, b"csrf=" + csrf + b"&name=a%ED%A0%80b")
    assert reply.status in (303, 400)


@pytest.mark.parametrize("root", ["/dashboard", "/console", ""])
async def test_an_unknown_url_returns_html_to_browsers_and_json_to_programs(
    site: Site, root: str
) -> None:
    shown = await site.send("GET", f"{root}/no/such/page", {"Accept": "text/html,*/*;q=0.8"})
    assert shown.status == 404
    assert shown.headers["content-type"].startswith("text/html")
    assert b"This page does not exist." in shown.body
    assert b"<h1>Page not found</h1>" in shown.body
    reply = await site.send("GET", f"{root}/no/such/page", {"Accept": "*/*"})
    assert (reply.status, reply.code) == (404, "NOT_FOUND")
    refused = await site.send("PUT", f"{root}/", {"Accept": "text/html"})
    assert refused.status == 405
    assert refused.headers["content-type"].startswith("text/html")


async def test_static_files_are_cached_forever_under_a_versioned_url(site: Site) -> None:
    front = (await site.send("GET", "/")).body.decode()
    [path] = set(re.findall(r"/static/web/[0-9a-f]{12}/web\.css", front))
    plain = await site.send("GET", path)
    packed = await site.send("GET", path, {"Accept-Encoding": "br, gzip"})
    assert "immutable" in plain.headers["cache-control"]
    assert plain.headers["vary"] == "accept-encoding"
    assert plain.headers["content-type"].startswith("text/css")
    assert (packed.headers["content-encoding"], len(packed.body) < len(plain.body)) == (
        "gzip",
        True,
    )
    folder = path.rpartition("/")[0]
    for beyond in (
        "../rendering.py",
        "..%2frendering.py",
        "%2e%2e/authentication.py",
        "vendor",
        "%00",
        "",
    ):
        assert (await site.send("GET", f"{folder}/{beyond}")).status == 404, beyond


async def test_cookies_are_secure_over_https(services: Services, owner: SignedInUser) -> None:
    secure = msgspec.structs.replace(services, base_url="https://pay.example")
    asgi = pages.build(secure, [dashboard.build(secure)])
    async with (
        serving(asgi) as port,
        aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as browser,
    ):
        url = f"http://127.0.0.1:{port}/dashboard/sign-in"
        async with browser.get(url) as reply:
            [visit] = reply.headers.getall("Set-Cookie")
            found = re.search('name="csrf" value="([0-9a-f]+)"', await reply.text())
            assert found
        fields = urlencode({"email": owner.email, "password": PASSWORD, "csrf": found.group(1)})
        headers = {"Cookie": visit.partition(";")[0], "Content-Type": FORM}
        async with browser.post(url, data=fields, headers=headers, allow_redirects=False) as reply:
            assert reply.status == 303
            session, device = reply.headers.getall("Set-Cookie")
    for cookie, name in (
        (visit, "manilla_visit"),
        (session, "manilla_dashboard"),
        (device, "manilla_device_dashboard"),
    ):
        assert cookie.startswith(f"__Secure-{name}=")
        assert "; secure" in cookie.lower()
        assert "; httponly" in cookie.lower()


async def _end_session(services: Services, user: SignedInUser) -> None:
    await services.db.execute(
        "UPDATE session SET seen_at = now() - interval '2 days' WHERE person_id = $1",
        user.person_id,
    )


PAYMENT_LINK = {"amount": "1500", "title": "Two bags of rice"}


async def test_a_form_of_an_ended_session_is_filled_in_again_after_sign_in(
    site: Site, services: Services
) -> None:
    user = await _new_owner(site, services)
    async with HttpBrowser.of(site) as browser:
        await browser.sign_in(user.email, PASSWORD)
        page = "/sandbox/links/new"
        fields = {**PAYMENT_LINK, "csrf": (await browser.get(page)).csrf}
        await _end_session(services, user)
        sent = await browser.post("/sandbox/links", fields, referer=page)
        assert sent.headers["Location"] == (
            "/dashboard/sign-in?next=%2Fdashboard%2Fsandbox%2Flinks%2Fnew"
        )
        assert "The form was not submitted" in (await browser.get("/sign-in")).text

        entered = await browser.sign_in(user.email, PASSWORD, f"/dashboard{page}")
        assert entered.headers["Location"] == f"/dashboard{page}"
        form = (await browser.get(page)).text
        assert 'value="Two bags of rice"' in form
        assert "The form was not submitted" in form
        assert "Two bags of rice" not in (await browser.get(page)).text, "shown once"
        links = await services.db.number(
            "SELECT count(*) FROM payment_link WHERE title = $1", PAYMENT_LINK["title"]
        )
    assert links == 0


async def test_another_user_does_not_get_the_form_of_an_ended_session(
    site: Site, services: Services
) -> None:
    first, second = await _new_owner(site, services), await _new_owner(site, services)
    async with HttpBrowser.of(site) as browser:
        await browser.sign_in(first.email, PASSWORD)
        page = "/sandbox/links/new"
        fields = {**PAYMENT_LINK, "csrf": (await browser.get(page)).csrf}
        await _end_session(services, first)
        await browser.post("/sandbox/links", fields, referer=page)
        await browser.sign_in(second.email, PASSWORD)
        assert "Two bags of rice" not in (await browser.get(page)).text


async def test_a_forged_form_is_not_kept_for_after_sign_in(site: Site, services: Services) -> None:
    user = await _new_owner(site, services)
    async with HttpBrowser.of(site) as browser:
        await browser.sign_in(user.email, PASSWORD)
        await _end_session(services, user)
        page = "/sandbox/links/new"
        sent = await browser.post(
            "/sandbox/links", {**PAYMENT_LINK, "csrf": "0" * 64}, referer=page
        )
        assert sent.status == 303
        assert browser.cookie("manilla_form") is None


async def test_sign_in_says_that_the_session_has_ended(site: Site, services: Services) -> None:
    user = await _new_owner(site, services)
    async with HttpBrowser.of(site) as browser:
        await browser.get("/sandbox/payments")
        assert "has ended" not in (await browser.get("/sign-in")).text, "there was no session"
        await browser.sign_in(user.email, PASSWORD)
        await _end_session(services, user)
        await browser.get("/sandbox/payments")
        assert "Your session has ended" in (await browser.get("/sign-in")).text
