"""Pages of the user's own account: sign-in, sign-out, second factor, password and sessions."""

from typing import Any

import segno

from manilla.kit.errors import Refusal
from manilla.people import (
    devices,
    invitations,
    links,
    mail,
    members,
    passwords,
    persons,
    resets,
    second_factor,
    sessions,
    sign_in,
)
from manilla.people.mail import Letter
from manilla.people.roles import Realm
from manilla.people.sessions import NewSession
from manilla.people.sign_in import NeedsCode, SignedIn
from manilla.people.throttle import TooManyAttempts
from manilla.services import Services
from manilla.web import tickets
from manilla.web.layout import NotHere
from manilla.web.page_request import PageRequest, way_on
from manilla.web.routes import SIGNED_IN, Answer, Route, form, page

PASSWORD = ((passwords.WeakPassword, "password"),)
CODE = ((second_factor.CodeRefused, "code"),)
KEPT = "kept."  # prefix for the fields of an interrupted form


class Account:
    def __init__(self, services: Services, realm: Realm) -> None:
        self._db = services.db
        self._keyring = services.keyring
        self._realm = realm
        self._mailer = services.mailer

    def routes(self) -> list[Route]:
        return [
            form("/sign-in/demo", self.sign_in_to_demo, None),
            page("/sign-in", self.show_sign_in, None),
            form("/sign-in", self.sign_in, None),
            form("/sign-in/code", self.give_code, None),
            form("/sign-out", self.sign_out, SIGNED_IN, enrolls=True),
            page("/forgot", self.show_forgot, None),
            form("/forgot", self.forgot, None),
            page("/reset/{token:str}", self.show_reset, None),
            form("/reset/{token:str}", self.reset, None),
            page("/invitation/{token:str}", self.show_invitation, None),
            form("/invitation/{token:str}", self.accept, None),
            form("/invitation/{token:str}/join", self.join, SIGNED_IN),
            page("/account", self.show, SIGNED_IN, enrolls=True),
            form("/account/password", self.change_password, SIGNED_IN),
            form("/account/merchant", self.choose_merchant, SIGNED_IN),
            form("/account/sessions/{session:int}/end", self.end_session, SIGNED_IN),
            form("/account/sessions/end-others", self.end_others, SIGNED_IN),
            form(
                "/account/second-factor",
                self.begin_second_factor,
                SIGNED_IN,
                step_up=True,
                enrolls=True,
            ),
            form(
                "/account/second-factor/confirm",
                self.confirm_second_factor,
                SIGNED_IN,
                enrolls=True,
            ),
            form("/account/second-factor/off", self.end_second_factor, SIGNED_IN, step_up=True),
            form("/account/recovery-codes", self.renew_recovery, SIGNED_IN, step_up=True),
        ]

    async def show_sign_in(self, request: PageRequest) -> Answer:
        if request.is_signed_in:
            return request.redirect("/")
        onward = request.query.text("next", at_most=2000)
        return request.page("sign_in.html", next=onward)

    async def sign_in_to_demo(self, request: PageRequest) -> Answer:
        demo_login = request.layout.demo_login
        if demo_login is None:
            raise NotHere
        entered = await self._sign_in(request, demo_login.email, demo_login.password, None)
        if isinstance(entered, NeedsCode):
            raise NotHere
        return self._let_in(request, entered.session, request.form.text("next", at_most=2000))

    async def sign_in(self, request: PageRequest) -> Answer:
        onward = request.form.text("next", at_most=2000)
        email, password = request.form.text("email"), request.form.secret("password")
        try:
            entered = await self._sign_in(request, email, password, None)
        except TooManyAttempts as refusal:
            # A valid code together with the right password bypasses the limit.
            ticket = tickets.write(self._keyring, request.csrf, email, password)
            return request.refused(
                "code.html", refusal, next=onward, ticket=ticket, is_over_limit=True
            )
        except Refusal as refusal:
            return request.refused("sign_in.html", refusal, next=onward)
        if isinstance(entered, NeedsCode):
            ticket = tickets.write(self._keyring, request.csrf, email, password)
            return request.page("code.html", next=onward, ticket=ticket, is_over_limit=False)
        return self._let_in(request, entered.session, onward)

    async def give_code(self, request: PageRequest) -> Answer:
        onward, ticket = (
            request.form.text("next", at_most=2000),
            request.form.text("ticket", at_most=4000),
        )
        known = tickets.read(self._keyring, request.csrf, ticket)
        if known is None:
            return request.redirect("/sign-in")
        try:
            code = request.form.needed("code")
            entered = await self._sign_in(request, known.email, known.password, code)
        except Refusal as refusal:
            return request.refused(
                "code.html", refusal, next=onward, ticket=ticket, is_over_limit=False
            )
        assert not isinstance(entered, NeedsCode)
        return self._let_in(request, entered.session, onward)

    async def _sign_in(
        self, request: PageRequest, email: str, password: str, code: str | None
    ) -> SignedIn | NeedsCode:
        return await sign_in.sign_in(
            self._db,
            self._keyring,
            self._realm,
            email,
            password,
            code,
            request.address,
            request.user_agent,
            device_cookie=request.device_cookie,
        )

    def _let_in(self, request: PageRequest, session: NewSession, onward: str) -> Answer:
        request.begin(session)
        request.remember_device(devices.issue(self._keyring, self._realm, session.person_id))
        return request.redirect(way_on(request.layout, onward, "/"))

    async def sign_out(self, request: PageRequest) -> Answer:
        await sessions.end(self._db, self._realm, request.session_token)
        request.set_cookie(request.layout.cookie, "", 0)
        return request.redirect("/sign-in", done="You have signed out.")

    async def show_forgot(self, request: PageRequest) -> Answer:
        return request.page("forgot.html", is_sent=False, has_mail=self._mailer.is_open)

    async def forgot(self, request: PageRequest) -> Answer:
        """Answers the same, and equally fast, whether or not an account has this email address."""
        try:
            email = request.form.needed("email")
            await resets.count(self._db, self._realm, email, request.address)
        except Refusal as refusal:
            has_mail = self._mailer.is_open
            return request.refused("forgot.html", refusal, is_sent=False, has_mail=has_mail)
        self._mailer.write_later(mail.Kind.RESET, self._reset_letter(request, email))
        return request.page("forgot.html", is_sent=True, has_mail=self._mailer.is_open)

    def _reset_letter(self, request: PageRequest, email: str) -> mail.Write:
        async def write() -> Letter | None:
            new = await resets.ask(self._db, self._realm, email)
            if new is None:
                return None
            link = links.reset(request.services.base_url, self._realm, new.token)
            return Letter(mail.Kind.RESET, new.person.email, link)

        return write

    async def show_reset(self, request: PageRequest) -> Answer:
        await resets.look_at(self._db, self._realm, request.parameter("token"))
        return request.page("reset.html")

    async def reset(self, request: PageRequest) -> Answer:
        password = request.form.secret("password")
        try:
            await resets.use(self._db, self._realm, request.parameter("token"), password)
        except passwords.WeakPassword as refusal:
            return request.refused("reset.html", refusal, at=PASSWORD)
        return request.redirect("/sign-in", done="Password changed. Sign in with the new password.")

    async def show_invitation(self, request: PageRequest) -> Answer:
        return request.page("invitation.html", **await self._invitation(request))

    async def _invitation(self, request: PageRequest) -> dict[str, Any]:
        invitation = await invitations.look_at(self._db, self._realm, request.parameter("token"))
        has_account = await invitations.has_account(self._db, invitation)
        return {"invitation": invitation, "has_account": has_account}

    async def accept(self, request: PageRequest) -> Answer:
        try:
            session = await invitations.accept(
                self._db,
                self._realm,
                request.parameter("token"),
                name=request.form.needed("name"),
                password=request.form.secret("password"),
                address=request.address,
                user_agent=request.user_agent,
            )
        except Refusal as refusal:
            about = await self._invitation(request)
            return request.refused("invitation.html", refusal, at=PASSWORD, **about)
        return self._let_in(request, session, "")

    async def join(self, request: PageRequest) -> Answer:
        await invitations.join(self._db, request.visitor, request.parameter("token"))
        return request.redirect("/", done="You have joined the team.")

    async def show(self, request: PageRequest) -> Answer:
        return request.page("account.html", **await self._about(request))

    async def _about(self, request: PageRequest) -> dict[str, Any]:
        person_id = request.visitor.person_id
        person = await persons.get(self._db, person_id)
        return {
            "recovery_codes_left": person.recovery_codes_left,
            "sessions": await sessions.list_of(self._db, person_id),
            "merchants": await members.merchants_of(self._db, person_id),
        }

    async def change_password(self, request: PageRequest) -> Answer:
        old, new = request.form.secret("old"), request.form.secret("new")
        try:
            await passwords.change(self._db, request.visitor, old, new)
        except Refusal as refusal:
            at = ((passwords.WrongPassword, "old"), (passwords.WeakPassword, "new"))
            return request.refused("account.html", refusal, at=at, **await self._about(request))
        return request.redirect(
            "/account", done="Password changed. Your other sessions have ended."
        )

    async def choose_merchant(self, request: PageRequest) -> Answer:
        await sessions.choose_merchant(self._db, request.visitor, request.form.whole("merchant_id"))
        return request.redirect("/")

    async def end_session(self, request: PageRequest) -> Answer:
        session_id = int(request.parameter("session"))
        await sessions.revoke(self._db, request.visitor.person_id, session_id)
        return request.redirect("/account", done="Session ended.")

    async def end_others(self, request: PageRequest) -> Answer:
        visitor = request.visitor
        await sessions.revoke_all_but(self._db, visitor.person_id, visitor.session_id)
        return request.redirect("/account", done="All other sessions ended.")

    async def begin_second_factor(self, request: PageRequest) -> Answer:
        issuer = request.layout.platform.now.site_name
        begun = await second_factor.begin(self._db, self._keyring, request.visitor, issuer=issuer)
        return request.page(
            "second_factor.html", **_to_scan(begun.secret, begun.uri), **_interrupted(request)
        )

    async def confirm_second_factor(self, request: PageRequest) -> Answer:
        try:
            codes = await second_factor.confirm(
                self._db, self._keyring, request.visitor, request.form.text("code")
            )
        except second_factor.CodeRefused as refusal:
            # Show the same page again from the submitted values, so that no secret is read from the
            # database.
            secret, uri = request.form.text("secret"), request.form.text("uri", at_most=500)
            about = {**_to_scan(secret, uri), **_interrupted(request)}
            return request.refused("second_factor.html", refusal, at=CODE, **about)
        return request.page("recovery_codes.html", codes=codes, **_interrupted(request))

    async def renew_recovery(self, request: PageRequest) -> Answer:
        codes = await second_factor.renew_recovery(self._db, request.visitor)
        return request.page("recovery_codes.html", codes=codes, onward="", carried=[])

    async def end_second_factor(self, request: PageRequest) -> Answer:
        await second_factor.turn_off(self._db, request.visitor)
        if not request.visitor.has_totp:
            return request.redirect("/account", done="Second factor turned off.")
        request.set_cookie(request.layout.cookie, "", 0)
        done = "Second factor turned off. All your sessions have ended. Sign in again."
        return request.redirect("/sign-in", done=done)


def _to_scan(secret: str, uri: str) -> dict[str, Any]:
    picture = segno.make(uri or " ", error="m").svg_data_uri(scale=4, border=2)
    return {"secret": secret, "uri": uri, "picture": picture}


def _interrupted(request: PageRequest) -> dict[str, Any]:
    """The form that was interrupted when the user had to set up a second factor."""
    onward = way_on(request.layout, request.form.text("onward", at_most=2000), "")
    carried = [
        (name.removeprefix(KEPT), value)
        for name, value in request.form.pairs()
        if name.startswith(KEPT)
    ]
    return {"onward": onward, "carried": carried if onward else []}
