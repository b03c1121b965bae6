"""Authentication, authorization and CSRF checks for dashboard and console routes."""

import secrets
from collections.abc import Sequence
from functools import partial
from typing import Any
from urllib.parse import quote, urlsplit

import structlog

from manilla.audit.actor import Actor, ActorKind, acting, is_unconfirmed
from manilla.cells.directory import MerchantMoves
from manilla.cells.fence_trigger import MerchantElsewhere, refused_when_fenced
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.listing import INTEGER_MAX
from manilla.people import security_log, sessions
from manilla.people.passwords import WrongPassword
from manilla.people.roles import Realm
from manilla.people.second_factor import CodeRefused
from manilla.people.security_log import SecurityEvent, SecurityOutcome, SecuritySubject
from manilla.people.throttle import TooManyAttempts
from manilla.people.visitor import Visitor
from manilla.web import interrupted_form
from manilla.web.company import pages as company
from manilla.web.csrf import FIELD, Csrf, ForgedForm
from manilla.web.exports import ExportFile
from manilla.web.form_body import read_form
from manilla.web.forms import BadForm, Form
from manilla.web.interrupted_form import InterruptedForm
from manilla.web.layout import Layout
from manilla.web.page_request import PageRequest
from manilla.web.routes import SIGNED_IN, Route
from manilla.web.serving.request import WebRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound, UrlHandler, UrlPatterns

log = structlog.get_logger(__name__)

# Before sign-in, the CSRF token is bound to this cookie.
ANONYMOUS = "manilla_visit"
ANONYMOUS_SECONDS = 12 * 3600
STEP_UP = "step_up_secret"
SIGN_OUT = "/sign-out"
FORBIDDEN = 403
# A form that is submitted to `/payouts`, for example, is on the page `/payouts/new`.
NEW = "/new"
SESSION_ENDED = "Your session has ended. Sign in again to continue."
NOT_SUBMITTED = "Your session has ended. The form was not submitted. Sign in to return to the form."
STEP_UP_OUTCOMES: dict[type[Refusal], SecurityOutcome] = {
    WrongPassword: SecurityOutcome.WRONG_PASSWORD,
    CodeRefused: SecurityOutcome.WRONG_CODE,
    TooManyAttempts: SecurityOutcome.LOCKED_OUT,
}


class NotAllowed(Refusal):
    status, code = 403, "NOT_ALLOWED"
    message = "Your role does not allow this action. Contact an owner or an administrator."


class SecondFactorNeeded(Refusal):
    status, code = 403, "SECOND_FACTOR_NEEDED"
    message = "A second factor is required. Set one up under Your account."


class CompanySignInNeeded(Refusal):
    status, code = 403, "COMPANY_SIGN_IN_NEEDED"
    message = "Company sign-in is required here. Sign in with your company under Your account."


class Authentication:
    def __init__(
        self,
        layout: Layout,
        *,
        needs_second_factor: bool = False,
    ) -> None:
        self._layout = layout
        self._db = layout.services.db
        self._keyring = layout.services.keyring
        self._csrf = Csrf(self._keyring)
        self._needs_second_factor = needs_second_factor
        self._pages = UrlPatterns([])
        # A merchant's users cannot choose the cell: the proxy does, after the move.
        in_console = layout.realm is Realm.CONSOLE
        self._when_fenced = MerchantElsewhere if in_console else MerchantMoves

    def handlers(self, routes: Sequence[Route]) -> list[UrlHandler]:
        """Returns handlers for the routes. Each handler first checks the user's access."""
        root = self._layout.root
        self._pages = UrlPatterns(
            root + route.path for route in routes if route.method == "GET" and route.is_page
        )
        return [
            UrlHandler(
                route.method, root + route.path, partial(self._serve, route), route.body_bytes_max
            )
            for route in routes
        ]

    async def _serve(self, route: Route, http: WebRequest) -> PageResponse:
        token = http.cookies.get(self._layout.cookie, "")
        try:
            visitor = await sessions.find(self._db, self._layout.realm, token) if token else None
        except Refusal as refusal:  # the session cannot be read while the database is down
            return PageRequest(self._layout, http, None, csrf="").error_page(refusal)
        name = self._layout.cookie_named(ANONYMOUS)
        anonymous = http.cookies.get(name) or secrets.token_urlsafe(24)
        binding = token if visitor is not None else anonymous
        request = PageRequest(self._layout, http, visitor, csrf=self._csrf.token(binding))
        if visitor is None and name not in http.cookies:
            request.set_cookie(name, anonymous, ANONYMOUS_SECONDS)
        with acting(_actor(visitor, self._layout), request.address):
            try:
                with refused_when_fenced(self._when_fenced):
                    return await self._answer(route, request, visitor, binding)
            except _IdentityNotConfirmed as asked:
                return asked.page
            except _NotSignedIn:
                return await self._to_sign_in(request, token)
            except _CodeOwed:
                return request.redirect(company.CODE, query={"next": self._return_to(request)})
            except Refusal as refusal:
                if refusal.status == FORBIDDEN:
                    self._report_refusal(visitor, request, refusal.code)
                return request.error_page(refusal)

    async def _answer(
        self, route: Route, request: PageRequest, visitor: Visitor | None, binding: str
    ) -> PageResponse:
        await self._admit(route, request, visitor, binding)
        if visitor is not None and self._needs_step_up(route, visitor):
            if self._needs_code(route, request) and not visitor.has_totp:
                self._report_refusal(visitor, request, SecondFactorNeeded.code)
                return request.page("second_factor_needed.html", FORBIDDEN, kept=_kept(request))
            request.confirm_identity = partial(self._confirm_identity, route, request, visitor)
            is_unconfirmed.set(True)
            if not route.checks_first:
                await request.confirm_identity()
        if self._layout.counts is not None and visitor is not None and route.is_page:
            request.counts = await self._layout.counts(request)
        answer = await route.handler(request)
        if isinstance(answer, ExportFile):
            await answer.begin()
            await self._record_export(request, answer)
        return answer

    def _needs_step_up(self, route: Route, visitor: Visitor) -> bool:
        """Returns whether the user must confirm their identity.

        A merchant's provider could begin a session as a user who has an account of their own. It
        must not change what this account does at other merchants.
        """
        is_only_of_merchant = bool(visitor.provider_merchant_id) and visitor.has_password
        return route.step_up or (route.is_account_wide and is_only_of_merchant)

    async def _record_export(self, request: PageRequest, file: ExportFile) -> None:
        visitor = request.visitor
        await security_log.record_export(
            self._db,
            visitor.realm,
            _subject(visitor),
            merchant_id=visitor.merchant_id,
            name=file.name,
            file_format=file.file_format,
        )

    def _report_refusal(self, visitor: Visitor | None, request: PageRequest, code: str) -> None:
        security_log.report(
            SecurityEvent.PERMISSION,
            SecurityOutcome.REFUSED,
            self._layout.realm,
            _subject(visitor) if visitor else None,
            code=code,
            method=request.http.method,
            path=request.http.path,
        )

    async def _admit(
        self, route: Route, request: PageRequest, visitor: Visitor | None, binding: str
    ) -> None:
        """Parses environment, query and form. Rejects a request that is not allowed."""
        if not route.is_public and visitor is None:
            raise _NotSignedIn
        _check_parameters(request.http)
        request.environment_or_none = _environment(request.http)
        request.query = Form(request.http.query_pairs)
        if route.method == "POST":
            request.form = await read_form(request.http)
            fetch_site = request.http.headers.get("sec-fetch-site")
            self._csrf.check(binding, request.form.text(FIELD), fetch_site)
            request.note_write()
        elif route.is_page:
            request.restore_form()
        if visitor is not None:
            if visitor.merchant_id is not None and not route.is_public:
                self._layout.services.cells.now.check_here(visitor.merchant_id)
            self._check_allowed(route, request, visitor)

    def _check_allowed(self, route: Route, request: PageRequest, visitor: Visitor) -> None:
        if route.is_public:
            return
        if visitor.owes_code and route.path not in (company.CODE, SIGN_OUT):
            raise _CodeOwed
        if route.enrolls:
            return
        if visitor.must_use_company and route.needs != SIGNED_IN:
            raise CompanySignInNeeded
        if self._needs_second_factor and not visitor.second_factor:
            raise SecondFactorNeeded
        if route.needs == SIGNED_IN:
            return
        if route.needs not in visitor.permissions:
            raise NotAllowed
        if route.needs_in_production is None or visitor.may(route.needs_in_production):
            return
        if route.affects_production(request.environment_or_none):
            raise NotAllowed

    async def _confirm_identity(self, route: Route, request: PageRequest, visitor: Visitor) -> None:
        # Clear the flag before the check, because a failed check raises and stops the handler.
        is_unconfirmed.set(False)
        if (page := await self._step_up_page(route, request, visitor)) is not None:
            raise _IdentityNotConfirmed(page)

    async def _step_up_page(
        self, route: Route, request: PageRequest, visitor: Visitor
    ) -> PageResponse | None:
        """Returns the page on which the user confirms their identity, or None if it is not needed.

        The page keeps the submitted form, and submits it with the user's confirmation.
        """
        needs_code = self._needs_code(route, request)
        is_enough = visitor.second_factor or not (needs_code or visitor.owes_code)
        if visitor.is_stepped_up and is_enough:
            return None
        alert = None
        if STEP_UP in request.form:
            try:
                await self._check_identity(visitor, request.form.secret(STEP_UP))
                request.mark_stepped_up()
                return None
            except Refusal as refusal:
                alert = refusal.text
        status, return_to = 403 if alert else 200, self._return_to(request)
        if visitor.is_by_company and not visitor.has_totp and request.http.method == "POST":
            # The user confirms their identity at the provider, and then finds the form here.
            self._write_form(request, visitor.person_id, return_to)
        action = return_to if request.http.method == "GET" else request.http.path
        about: dict[str, Any] = {"return_to": return_to, "action": action, "problem_text": alert}
        return request.page("step_up.html", status, kept=_kept(request), **about)

    def _return_to(self, request: PageRequest) -> str:
        if request.http.method != "GET":
            return self._page_with_form(request)
        query = request.http.query_string
        return request.http.path + (f"?{query}" if query else "")

    def _needs_code(self, route: Route, request: PageRequest) -> bool:
        """Returns whether the route needs a second factor because it can affect real money."""
        return (
            self._layout.realm is Realm.DASHBOARD
            # A provider, which a merchant manages, can sign in as any of the merchant's users.
            and (
                bool(self._layout.platform.now.second_factor_for_money)
                or request.visitor.is_by_company
            )
            and route.needs != SIGNED_IN
            and route.affects_production(request.environment_or_none)
        )

    async def _check_identity(self, visitor: Visitor, secret: str) -> None:
        """Checks the secret: a code if the user has a second factor, otherwise the password."""
        given = {"code" if visitor.has_totp else "password": secret}
        try:
            await sessions.step_up(self._db, self._keyring, visitor, **given)
        except (WrongPassword, CodeRefused, TooManyAttempts) as refusal:
            await security_log.record_failure(
                self._db,
                SecurityEvent.STEP_UP,
                STEP_UP_OUTCOMES[type(refusal)],
                visitor.realm,
                _subject(visitor),
                is_repeated=isinstance(refusal, TooManyAttempts) and not refusal.is_first,
            )
            raise
        security_log.report(
            SecurityEvent.STEP_UP, SecurityOutcome.DONE, visitor.realm, _subject(visitor)
        )

    async def _to_sign_in(self, request: PageRequest, token: str) -> PageResponse:
        """Redirects to the sign-in page, with a message if the browser had a session that ended."""
        target, why = self._return_to(request), SESSION_ENDED
        if request.http.method != "GET":
            why = NOT_SUBMITTED
            await self._keep_form(request, token, target)
        to = f"/sign-in?next={quote(target, safe='')}"
        return request.redirect(to, warning=why) if token else request.redirect(to)

    async def _keep_form(self, request: PageRequest, token: str, page: str) -> None:
        """Stores the submitted form in a cookie, for the session's user. Ignores a forged form."""
        person_id = await sessions.person_of(self._db, self._layout.realm, token) if token else None
        if person_id is None:
            return
        try:
            request.form = await read_form(request.http)
            fetch_site = request.http.headers.get("sec-fetch-site")
            self._csrf.check(token, request.form.text(FIELD), fetch_site)
        except (BadForm, ForgedForm):
            return
        self._write_form(request, person_id, page)

    def _write_form(self, request: PageRequest, person_id: int, page: str) -> None:
        path = page.partition("?")[0]
        form = InterruptedForm(person_id, path, request.http.path, _kept(request))
        if (cookie := interrupted_form.write(self._keyring, form)) is not None:
            name = self._layout.cookie_named(interrupted_form.COOKIE)
            request.set_cookie(name, cookie, interrupted_form.SECONDS)

    def _page_with_form(self, request: PageRequest) -> str:
        """Returns the page that contained the submitted form, or the nearest parent page."""
        referer, path = urlsplit(request.http.headers.get("referer", "")), request.http.path
        # The identity confirmation page has the URL to which the form was submitted.
        if referer.path == path and self._pages.match(path + NEW):
            return path + NEW
        if self._pages.match(referer.path):
            return referer.path + (f"?{referer.query}" if referer.query else "")
        while path and not self._pages.match(path):
            path = path.rpartition("/")[0]
        return path or self._layout.root + "/"


class _NotSignedIn(Exception):
    """The user is not signed in."""


class _CodeOwed(Exception):
    """The user signed in with a provider, and must still enter the code of their second factor."""


class _IdentityNotConfirmed(Exception):
    """The user must first confirm their identity on `page`."""

    def __init__(self, page: PageResponse) -> None:
        super().__init__()
        self.page = page


def _subject(visitor: Visitor) -> SecuritySubject:
    return SecuritySubject(visitor.person_id, visitor.email)


def _kept(request: PageRequest) -> list[tuple[str, str]]:
    """Returns the submitted fields, without the CSRF token and the password or code."""
    return [pair for pair in request.form.pairs() if pair[0] not in (FIELD, STEP_UP)]


def _check_parameters(http: WebRequest) -> None:
    """Raises `PageNotFound` if a path parameter is too large or not printable."""
    for value in http.parameters.values():
        if isinstance(value, int) and abs(value) > INTEGER_MAX:
            raise PageNotFound
        if isinstance(value, str) and not value.isprintable():
            raise PageNotFound


def _environment(http: WebRequest) -> Environment | None:
    given = http.parameters.get("environment")
    if given is None:
        return None
    try:
        return Environment(str(given))
    except ValueError:
        raise PageNotFound from None


def _actor(visitor: Visitor | None, layout: Layout) -> Actor:
    if visitor is None:
        return Actor(ActorKind.SYSTEM, None, f"a visitor of the {layout.realm}")
    return Actor(ActorKind.PERSON, visitor.person_id, visitor.email, layout.realm)
