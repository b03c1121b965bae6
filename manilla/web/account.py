"""Pages of the user's own account: sign-in, sign-out, second factor, password and sessions."""

from typing import Any

import segno

from manilla.kit.crypto import Keyring
from manilla.kit.db import Database
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
from manilla.people.mail import Letter, Post
from manilla.people.roles import Realm
from manilla.people.sessions import NewSession
from manilla.people.sign_in import NeedsCode, SignedIn
from manilla.people.throttle import TooManyAttempts
from manilla.web import tickets
from manilla.web.routes import SIGNED_IN, Answer, Route, form, page
from manilla.web.shell import NotHere
from manilla.web.visit import Visit, way_on

PASSWORD = ((passwords.WeakPassword, "password"),)
CODE = ((second_factor.CodeRefused, "code"),)
KEPT = "kept."  # prefix for the fields of an interrupted form


class Account:
    def __init__(self, db: Database, keyring: Keyring, realm: Realm, post: Post) -> None:
        self._db = db
        self._keyring = keyring
        self._realm = realm
        self._post = post

    def routes(self) -> list[Route]:
        return [
            form("/sign-in/demo", self.sign_in_for_show, None),
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

    async def show_sign_in(self, visit: Visit) -> Answer:
        if visit.is_signed_in:
            return visit.redirect("/")
        onward = visit.query.text("next", at_most=2000)
        return visit.page("sign_in.html", next=onward)

    async def sign_in_for_show(self, visit: Visit) -> Answer:
        show = visit.shell.show
        if show is None:
            raise NotHere
        entered = await self._sign_in(visit, show.email, show.password, None)
        if isinstance(entered, NeedsCode):
            raise NotHere
        return self._let_in(visit, entered.session, visit.form.text("next", at_most=2000))

    async def sign_in(self, visit: Visit) -> Answer:
        onward = visit.form.text("next", at_most=2000)
        email, password = visit.form.text("email"), visit.form.secret("password")
        try:
            entered = await self._sign_in(visit, email, password, None)
        except TooManyAttempts as refusal:
            # A valid code together with the right password bypasses the limit.
            ticket = tickets.write(self._keyring, visit.csrf, email, password)
            return visit.refused(
                "code.html", refusal, next=onward, ticket=ticket, is_over_limit=True
            )
        except Refusal as refusal:
            return visit.refused("sign_in.html", refusal, next=onward)
        if isinstance(entered, NeedsCode):
            ticket = tickets.write(self._keyring, visit.csrf, email, password)
            return visit.page("code.html", next=onward, ticket=ticket, is_over_limit=False)
        return self._let_in(visit, entered.session, onward)

    async def give_code(self, visit: Visit) -> Answer:
        onward, ticket = (
            visit.form.text("next", at_most=2000),
            visit.form.text("ticket", at_most=4000),
        )
        known = tickets.read(self._keyring, visit.csrf, ticket)
        if known is None:
            return visit.redirect("/sign-in")
        try:
            code = visit.form.needed("code")
            entered = await self._sign_in(visit, known.email, known.password, code)
        except Refusal as refusal:
            return visit.refused(
                "code.html", refusal, next=onward, ticket=ticket, is_over_limit=False
            )
        assert not isinstance(entered, NeedsCode)
        return self._let_in(visit, entered.session, onward)

    async def _sign_in(
        self, visit: Visit, email: str, password: str, code: str | None
    ) -> SignedIn | NeedsCode:
        return await sign_in.sign_in(
            self._db,
            self._keyring,
            self._realm,
            email,
            password,
            code,
            visit.address,
            visit.user_agent,
            device_cookie=visit.device_cookie,
        )

    def _let_in(self, visit: Visit, session: NewSession, onward: str) -> Answer:
        visit.begin(session)
        visit.remember_device(devices.issue(self._keyring, self._realm, session.person_id))
        return visit.redirect(way_on(visit.shell, onward, "/"))

    async def sign_out(self, visit: Visit) -> Answer:
        await sessions.end(self._db, self._realm, visit.session_token)
        visit.set_cookie(visit.shell.cookie, "", 0)
        return visit.redirect("/sign-in", done="You have signed out.")

    async def show_forgot(self, visit: Visit) -> Answer:
        return visit.page("forgot.html", is_sent=False, has_mail=self._post.is_open)

    async def forgot(self, visit: Visit) -> Answer:
        """Answers the same, and equally fast, whether or not an account has this email address."""
        try:
            email = visit.form.needed("email")
            await resets.count(self._db, self._realm, email, visit.address)
        except Refusal as refusal:
            has_mail = self._post.is_open
            return visit.refused("forgot.html", refusal, is_sent=False, has_mail=has_mail)
        self._post.write_later(mail.Kind.RESET, self._reset_letter(visit, email))
        return visit.page("forgot.html", is_sent=True, has_mail=self._post.is_open)

    def _reset_letter(self, visit: Visit, email: str) -> mail.Write:
        async def write() -> Letter | None:
            new = await resets.ask(self._db, self._realm, email)
            if new is None:
                return None
            link = links.reset(visit.shell.base_url, self._realm, new.token)
            return Letter(mail.Kind.RESET, new.person.email, link)

        return write

    async def show_reset(self, visit: Visit) -> Answer:
        await resets.look_at(self._db, self._realm, visit.parameter("token"))
        return visit.page("reset.html")

    async def reset(self, visit: Visit) -> Answer:
        password = visit.form.secret("password")
        try:
            await resets.use(self._db, self._realm, visit.parameter("token"), password)
        except passwords.WeakPassword as refusal:
            return visit.refused("reset.html", refusal, at=PASSWORD)
        return visit.redirect("/sign-in", done="Password changed. Sign in with the new password.")

    async def show_invitation(self, visit: Visit) -> Answer:
        return visit.page("invitation.html", **await self._invitation(visit))

    async def _invitation(self, visit: Visit) -> dict[str, Any]:
        invitation = await invitations.look_at(self._db, self._realm, visit.parameter("token"))
        has_account = await invitations.has_account(self._db, invitation)
        return {"invitation": invitation, "has_account": has_account}

    async def accept(self, visit: Visit) -> Answer:
        try:
            session = await invitations.accept(
                self._db,
                self._realm,
                visit.parameter("token"),
                name=visit.form.needed("name"),
                password=visit.form.secret("password"),
                address=visit.address,
                user_agent=visit.user_agent,
            )
        except Refusal as refusal:
            about = await self._invitation(visit)
            return visit.refused("invitation.html", refusal, at=PASSWORD, **about)
        return self._let_in(visit, session, "")

    async def join(self, visit: Visit) -> Answer:
        await invitations.join(self._db, visit.visitor, visit.parameter("token"))
        return visit.redirect("/", done="You have joined the team.")

    async def show(self, visit: Visit) -> Answer:
        return visit.page("account.html", **await self._about(visit))

    async def _about(self, visit: Visit) -> dict[str, Any]:
        person_id = visit.visitor.person_id
        person = await persons.get(self._db, person_id)
        return {
            "recovery_codes_left": person.recovery_codes_left,
            "sessions": await sessions.list_of(self._db, person_id),
            "merchants": await members.merchants_of(self._db, person_id),
        }

    async def change_password(self, visit: Visit) -> Answer:
        old, new = visit.form.secret("old"), visit.form.secret("new")
        try:
            await passwords.change(self._db, visit.visitor, old, new)
        except Refusal as refusal:
            at = ((passwords.WrongPassword, "old"), (passwords.WeakPassword, "new"))
            return visit.refused("account.html", refusal, at=at, **await self._about(visit))
        return visit.redirect("/account", done="Password changed. Your other sessions have ended.")

    async def choose_merchant(self, visit: Visit) -> Answer:
        await sessions.choose_merchant(self._db, visit.visitor, visit.form.whole("merchant_id"))
        return visit.redirect("/")

    async def end_session(self, visit: Visit) -> Answer:
        session_id = int(visit.parameter("session"))
        await sessions.revoke(self._db, visit.visitor.person_id, session_id)
        return visit.redirect("/account", done="Session ended.")

    async def end_others(self, visit: Visit) -> Answer:
        visitor = visit.visitor
        await sessions.revoke_all_but(self._db, visitor.person_id, visitor.session_id)
        return visit.redirect("/account", done="All other sessions ended.")

    async def begin_second_factor(self, visit: Visit) -> Answer:
        issuer = visit.shell.platform.now.site_name
        begun = await second_factor.begin(self._db, self._keyring, visit.visitor, issuer=issuer)
        return visit.page(
            "second_factor.html", **_to_scan(begun.secret, begun.uri), **_interrupted(visit)
        )

    async def confirm_second_factor(self, visit: Visit) -> Answer:
        try:
            codes = await second_factor.confirm(
                self._db, self._keyring, visit.visitor, visit.form.text("code")
            )
        except second_factor.CodeRefused as refusal:
            # Show the same page again from the submitted values, so that no secret is read from the
            # database.
            secret, uri = visit.form.text("secret"), visit.form.text("uri", at_most=500)
            about = {**_to_scan(secret, uri), **_interrupted(visit)}
            return visit.refused("second_factor.html", refusal, at=CODE, **about)
        return visit.page("recovery_codes.html", codes=codes, **_interrupted(visit))

    async def renew_recovery(self, visit: Visit) -> Answer:
        codes = await second_factor.renew_recovery(self._db, visit.visitor)
        return visit.page("recovery_codes.html", codes=codes, onward="", carried=[])

    async def end_second_factor(self, visit: Visit) -> Answer:
        await second_factor.turn_off(self._db, visit.visitor)
        if not visit.visitor.has_totp:
            return visit.redirect("/account", done="Second factor turned off.")
        visit.set_cookie(visit.shell.cookie, "", 0)
        done = "Second factor turned off. All your sessions have ended. Sign in again."
        return visit.redirect("/sign-in", done=done)


def _to_scan(secret: str, uri: str) -> dict[str, Any]:
    picture = segno.make(uri or " ", error="m").svg_data_uri(scale=4, border=2)
    return {"secret": secret, "uri": uri, "picture": picture}


def _interrupted(visit: Visit) -> dict[str, Any]:
    """The form that was interrupted when the user had to set up a second factor."""
    onward = way_on(visit.shell, visit.form.text("onward", at_most=2000), "")
    carried = [
        (name.removeprefix(KEPT), value)
        for name, value in visit.form.pairs()
        if name.startswith(KEPT)
    ]
    return {"onward": onward, "carried": carried if onward else []}
