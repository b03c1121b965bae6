"""Pages for the user's own account: sign-in, sign-out, second factor, password and sessions."""

from typing import Any

from manilla.kit.errors import Refusal
from manilla.people import (
    devices,
    invitations,
    members,
    passwords,
    persons,
    resets,
    second_factor,
    sessions,
    tasks,
)
from manilla.people.roles import Realm
from manilla.people.sessions import NewSession
from manilla.people.sign_in import NeedsCode, SignedIn
from manilla.people.sign_in import sign_in as check_credentials
from manilla.people.throttle import TooManyAttempts
from manilla.web import email_choices, pending_sign_in, qr_code, record_list
from manilla.web.company import pages as company
from manilla.web.page_request import PageRequest, safe_path
from manilla.web.routes import SIGNED_IN, Route
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

PASSWORD = ((passwords.WeakPassword, "password"),)
CODE = ((second_factor.CodeRefused, "code"),)
SECOND_FACTOR = "/account/second-factor"
# Hidden fields with this prefix keep the submitted form while the user sets up a second factor.
KEPT = "kept."


async def show_sign_in(request: PageRequest) -> PageResponse:
    if request.is_signed_in:
        return request.redirect("/")
    onward = request.query.text("next", at_most=2000)
    return request.page("sign_in.html", next=onward, company=await company.last_used(request))


async def sign_in_to_demo(request: PageRequest) -> PageResponse:
    demo_login = request.layout.demo_login
    if demo_login is None:
        raise PageNotFound
    is_second = request.realm is Realm.DASHBOARD and request.form.is_checked("second")
    email = demo_login.second_email if is_second else demo_login.email
    entered = await _sign_in(request, email, demo_login.password, None)
    if isinstance(entered, NeedsCode):
        raise PageNotFound
    return _start_session(request, entered.session, request.form.text("next", at_most=2000))


async def sign_in(request: PageRequest) -> PageResponse:
    onward = request.form.text("next", at_most=2000)
    email, password = request.form.text("email"), request.form.secret("password")
    try:
        entered = await _sign_in(request, email, password, None)
    except TooManyAttempts as refusal:
        # A user with the right password and a valid code can sign in despite the limit.
        ticket = pending_sign_in.write(request.services.keyring, request.csrf, email, password)
        return request.form_with_errors(
            "code.html", refusal, next=onward, ticket=ticket, is_over_limit=True
        )
    except Refusal as refusal:
        offered = await company.last_used(request)
        return request.form_with_errors("sign_in.html", refusal, next=onward, company=offered)
    if isinstance(entered, NeedsCode):
        ticket = pending_sign_in.write(request.services.keyring, request.csrf, email, password)
        return request.page("code.html", next=onward, ticket=ticket, is_over_limit=False)
    return _start_session(request, entered.session, onward)


async def submit_code(request: PageRequest) -> PageResponse:
    onward = request.form.text("next", at_most=2000)
    ticket = request.form.text("ticket", at_most=4000)
    known = pending_sign_in.read(request.services.keyring, request.csrf, ticket)
    if known is None:
        return request.redirect("/sign-in")
    try:
        code = request.form.required("code")
        entered = await _sign_in(request, known.email, known.password, code)
    except Refusal as refusal:
        return request.form_with_errors(
            "code.html", refusal, next=onward, ticket=ticket, is_over_limit=False
        )
    assert not isinstance(entered, NeedsCode)
    return _start_session(request, entered.session, onward)


async def _sign_in(
    request: PageRequest, email: str, password: str, code: str | None
) -> SignedIn | NeedsCode:
    return await check_credentials(
        request.db,
        request.services.keyring,
        request.realm,
        email,
        password,
        code,
        request.address,
        request.user_agent,
        device_cookie=request.device_cookie,
    )


def _start_session(request: PageRequest, session: NewSession, onward: str) -> PageResponse:
    request.start_session(session)
    request.remember_device(
        devices.issue(request.services.keyring, request.realm, session.person_id)
    )
    return request.redirect(safe_path(request.layout, onward, "/"))


async def sign_out(request: PageRequest) -> PageResponse:
    await sessions.end(request.db, request.realm, request.session_token)
    request.set_cookie(request.layout.cookie, "", 0)
    if (page := await company.sign_out(request)) is not None:
        return page
    return request.redirect("/sign-in", done="You have signed out.")


async def show_forgot(request: PageRequest) -> PageResponse:
    return request.page("forgot.html", is_sent=False, has_mail=request.services.has_mail)


async def forgot(request: PageRequest) -> PageResponse:
    """Requests a password reset. The response does not reveal whether the account exists."""
    try:
        email = request.form.required("email")
        await resets.count(request.db, request.realm, email, request.address)
    except Refusal as refusal:
        has_mail = request.services.has_mail
        return request.form_with_errors("forgot.html", refusal, is_sent=False, has_mail=has_mail)
    if request.services.has_mail:
        await tasks.request_reset(request.db, request.realm, email)
    return request.page("forgot.html", is_sent=True, has_mail=request.services.has_mail)


async def show_reset(request: PageRequest) -> PageResponse:
    await resets.look_at(request.db, request.realm, request.parameter("token"))
    return request.page("reset.html")


async def reset(request: PageRequest) -> PageResponse:
    password = request.form.secret("password")
    try:
        await resets.use(request.db, request.realm, request.parameter("token"), password)
    except passwords.WeakPassword as refusal:
        return request.form_with_errors("reset.html", refusal, at=PASSWORD)
    return request.redirect("/sign-in", done="Password changed. Sign in with the new password.")


async def show_invitation(request: PageRequest) -> PageResponse:
    return request.page("invitation.html", **await _invitation(request))


async def _invitation(request: PageRequest) -> dict[str, Any]:
    invitation = await invitations.look_at(request.db, request.realm, request.parameter("token"))
    has_account = await invitations.has_account(request.db, invitation)
    return {"invitation": invitation, "has_account": has_account}


async def accept(request: PageRequest) -> PageResponse:
    try:
        session = await invitations.accept(
            request.db,
            request.realm,
            request.parameter("token"),
            name=request.form.required("name"),
            password=request.form.secret("password"),
            address=request.address,
            user_agent=request.user_agent,
        )
    except Refusal as refusal:
        about = await _invitation(request)
        return request.form_with_errors("invitation.html", refusal, at=PASSWORD, **about)
    return _start_session(request, session, "")


async def join(request: PageRequest) -> PageResponse:
    await invitations.join(request.db, request.visitor, request.parameter("token"))
    return request.redirect("/", done="You have joined the team.")


async def show(request: PageRequest) -> PageResponse:
    return request.page("account.html", **await _about(request))


async def _about(request: PageRequest) -> dict[str, Any]:
    visitor, person_id = request.visitor, request.visitor.person_id
    person = await persons.get(request.db, person_id)
    found = await sessions.list_of(request.db, person_id)
    return {
        "recovery_codes_left": person.recovery_codes_left,
        "sessions": [each for each in found if visitor.reaches(each.merchant_id)],
        "merchants": await members.merchants_of(request.db, person_id),
        **await company.about(request),
    }


async def change_password(request: PageRequest) -> PageResponse:
    old, new = request.form.secret("old"), request.form.secret("new")
    try:
        await passwords.change(request.db, request.visitor, old, new)
    except Refusal as refusal:
        at = ((passwords.WrongPassword, "old"), (passwords.WeakPassword, "new"))
        return request.form_with_errors("account.html", refusal, at=at, **await _about(request))
    return request.redirect("/account", done="Password changed. Your other sessions have ended.")


async def choose_merchant(request: PageRequest) -> PageResponse:
    await sessions.choose_merchant(request.db, request.visitor, request.form.integer("merchant_id"))
    return request.redirect("/")


async def end_session(request: PageRequest) -> PageResponse:
    session_id = int(request.parameter("session"))
    await sessions.revoke(request.db, request.visitor.person_id, session_id)
    return request.redirect("/account", done="Session ended.")


async def end_others(request: PageRequest) -> PageResponse:
    visitor = request.visitor
    await sessions.revoke_all_but(request.db, visitor.person_id, visitor.session_id)
    return request.redirect("/account", done="All other sessions ended.")


async def begin_second_factor(request: PageRequest) -> PageResponse:
    issuer = request.layout.platform.now.site_name
    begun = await second_factor.begin(
        request.db, request.services.keyring, request.visitor, issuer=issuer
    )
    return request.page(
        "second_factor.html", **_to_scan(begun.secret, begun.uri), **_interrupted(request)
    )


async def confirm_second_factor(request: PageRequest) -> PageResponse:
    try:
        codes = await second_factor.confirm(
            request.db, request.services.keyring, request.visitor, request.form.text("code")
        )
    except second_factor.CodeRefused as refusal:
        # Show the page again with the secret from the form, not from the database.
        secret, uri = request.form.text("secret"), request.form.text("uri", at_most=500)
        about = {**_to_scan(secret, uri), **_interrupted(request)}
        return request.form_with_errors("second_factor.html", refusal, at=CODE, **about)
    return request.page("recovery_codes.html", codes=codes, **_interrupted(request))


async def renew_recovery(request: PageRequest) -> PageResponse:
    codes = await second_factor.renew_recovery(request.db, request.visitor)
    return request.page("recovery_codes.html", codes=codes, onward="", carried=[])


async def end_second_factor(request: PageRequest) -> PageResponse:
    await second_factor.turn_off(request.db, request.visitor)
    if not request.visitor.has_totp:
        return request.redirect("/account", done="Second factor turned off.")
    request.set_cookie(request.layout.cookie, "", 0)
    done = "Second factor turned off. All your sessions have ended. Sign in again."
    return request.redirect("/sign-in", done=done)


def _to_scan(secret: str, uri: str) -> dict[str, Any]:
    picture = qr_code.data_uri(uri or " ")
    return {"secret": secret, "uri": uri, "picture": picture}


def _interrupted(request: PageRequest) -> dict[str, Any]:
    """Returns the form that the user was submitting when a second factor had to be set up."""
    onward = safe_path(request.layout, request.form.text("onward", at_most=2000), "")
    carried = [
        (name.removeprefix(KEPT), value)
        for name, value in request.form.pairs()
        if name.startswith(KEPT)
    ]
    return {"onward": onward, "carried": carried if onward else []}


# The account routes of both the dashboard and the console.
ROUTES = [
    Route("POST", "/sign-in/demo", sign_in_to_demo, None),
    Route("GET", "/sign-in", show_sign_in, None),
    Route("POST", "/sign-in", sign_in, None),
    Route("POST", "/sign-in/code", submit_code, None),
    Route("POST", "/sign-out", sign_out, SIGNED_IN, enrolls=True),
    Route("POST", "/lists/{list:str}/columns", record_list.choose_columns, SIGNED_IN),
    Route("GET", "/forgot", show_forgot, None),
    Route("POST", "/forgot", forgot, None),
    Route("GET", "/reset/{token:str}", show_reset, None),
    Route("POST", "/reset/{token:str}", reset, None),
    Route("GET", "/invitation/{token:str}", show_invitation, None),
    Route("POST", "/invitation/{token:str}", accept, None),
    Route("POST", "/invitation/{token:str}/join", join, SIGNED_IN),
    Route("GET", "/account", show, SIGNED_IN, enrolls=True),
    *email_choices.ROUTES,
    *company.ROUTES,
    Route("POST", "/account/password", change_password, SIGNED_IN),
    Route("POST", "/account/merchant", choose_merchant, SIGNED_IN),
    Route(
        "POST", "/account/sessions/{session:int}/end", end_session, SIGNED_IN, is_account_wide=True
    ),
    Route("POST", "/account/sessions/end-others", end_others, SIGNED_IN, is_account_wide=True),
    Route("POST", SECOND_FACTOR, begin_second_factor, SIGNED_IN, step_up=True, enrolls=True),
    Route("POST", SECOND_FACTOR + "/confirm", confirm_second_factor, SIGNED_IN, enrolls=True),
    Route("POST", SECOND_FACTOR + "/off", end_second_factor, SIGNED_IN, step_up=True),
    Route("POST", "/account/recovery-codes", renew_recovery, SIGNED_IN, step_up=True),
]
