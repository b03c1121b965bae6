"""A request for a page by an authorized user, and the methods to respond to it."""

import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import msgspec

from manilla.approvals.approvals import Approvals
from manilla.kit.database.reader import RequestReads
from manilla.kit.database.rows import Reads
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.ledger.scope import Tenant
from manilla.merchants.directory import Caller
from manilla.people import devices
from manilla.people.roles import Permission, Realm
from manilla.people.second_person import Decider
from manilla.people.sessions import NewSession
from manilla.people.visitor import Visitor
from manilla.web import interrupted_form
from manilla.web.forms import FieldsByRefusal, Form, field_errors
from manilla.web.interrupted_form import InterruptedForm
from manilla.web.layout import NO_FORM, Layout
from manilla.web.serving.request import WebRequest
from manilla.web.serving.response import PageResponse, SetCookie

NO_STORE = {"Cache-Control": "no-store"}
FLASH = "manilla_flash"
FLASH_SECONDS = 60
RETURNED = "You are signed in again. The form was not submitted. Check the form, then submit it."
KEPT_LENGTH_MAX = 300  # the maximum length of a form value in the flash cookie
# The console shows data of this age if the standby is behind. Merchants always get current data.
AGE_SECONDS_MAX = 60
AGE_SECONDS_SHOWN = 1  # a page says how old its data are if they are older than this
# After an administrator has submitted a form, this cookie makes pages show only current data.
# Data older than AGE_SECONDS_MAX are never shown, so afterwards every page includes the change.
WROTE = "manilla_wrote"
WROTE_SECONDS = 2 * AGE_SECONDS_MAX


class Flash(msgspec.Struct, frozen=True):
    """A message that the next page shows once."""

    tone: str
    text: str
    errors: dict[str, str] = {}  # error messages by field
    given: dict[str, str] = {}  # the submitted values, which the form shows again
    form: str = ""  # the path that the form was submitted to


class PageRequest:
    def __init__(
        self,
        layout: Layout,
        http: WebRequest,
        visitor: Visitor | None,
        *,
        csrf: str,
    ) -> None:
        self.layout = layout
        self.services = layout.services
        self.db = layout.services.db
        self.realm = layout.realm
        self.http = http
        self._visitor = visitor
        self.environment_or_none: Environment | None = None
        self.form = Form({})
        self.query = Form({})
        self.csrf = csrf
        # The form that the user submitted on this page after the session had ended, or None.
        self.interrupted_form: InterruptedForm | None = None
        self.counts: Mapping[str, int] = {}  # for the navigation
        self._cookies: list[SetCookie] = []
        self._reads: RequestReads | None = None
        # A form's handler can move money, so it never uses a standby.
        self.uses_primary = http.method != "GET"
        # Whether the page must show all confirmed changes, although it only shows data.
        self.needs_current_data = layout.realm is not Realm.CONSOLE or self._has_written
        # Requires the user to confirm their identity, unless they confirmed it recently.
        # If a route has `checks_first`, its handler validates the form, then calls this function.
        self.confirm_identity: Callable[[], Awaitable[None]] = _not_confirmed

    @property
    def reads(self) -> Reads:
        """Reads data that the page only shows. A standby can serve these reads."""
        if self.uses_primary:
            return self.db
        if self._reads is None:
            age = 0 if self.needs_current_data else AGE_SECONDS_MAX
            self._reads = self.services.reads.begin(age_seconds_max=age)
        return self._reads

    @property
    def _has_written(self) -> bool:
        return self.layout.cookie_named(WROTE) in self.http.cookies

    def note_write(self) -> None:
        """Makes the administrator's next pages show only current data."""
        if self.realm is Realm.CONSOLE and self.services.reads.standby is not None:
            self.needs_current_data = True
            self.set_cookie(self.layout.cookie_named(WROTE), "1", WROTE_SECONDS)

    @property
    def data_as_of(self) -> datetime | None:
        """The time of the page's data, or None if they are current or less than a second old."""
        as_of = None if self._reads is None else self._reads.as_of
        if as_of is None or datetime.now(UTC) - as_of <= timedelta(seconds=AGE_SECONDS_SHOWN):
            return None
        return as_of

    @property
    def data_age_seconds(self) -> int:
        assert self.data_as_of is not None
        return round((datetime.now(UTC) - self.data_as_of).total_seconds())

    @property
    def visitor(self) -> Visitor:
        assert self._visitor is not None, "the route is public"
        return self._visitor

    @property
    def is_signed_in(self) -> bool:
        return self._visitor is not None

    @property
    def environment(self) -> Environment:
        assert self.environment_or_none is not None, "the route has no {environment}"
        return self.environment_or_none

    @property
    def merchant_id(self) -> int:
        assert self.visitor.merchant_id is not None
        return self.visitor.merchant_id

    @property
    def tenant(self) -> Tenant:
        return Tenant(self.merchant_id, self.environment)

    @property
    def decider(self) -> Decider:
        """The current user, in the role of a payout's requester or approver."""
        return Decider(self.visitor.person_id, self.visitor.email)

    async def caller(self) -> Caller:
        """Returns the merchant as an API caller, in the page's environment."""
        return await self.services.directory.of(self.environment, self.merchant_id)

    def parameter(self, name: str) -> str:
        """Returns the value of a path parameter."""
        return str(self.http.parameters[name])

    def may(self, permission: Permission) -> bool:
        return self._visitor is not None and permission in self._visitor.permissions

    def page(
        self,
        template: str,
        status: int = 200,
        *,
        headers: Mapping[str, str] | None = None,
        **values: Any,
    ) -> PageResponse:
        name = self.layout.cookie_named(FLASH)
        flash = _read_flash(self.http.cookies.get(name))
        if flash is not None:
            self.set_cookie(name, "", 0, path="/")
        rejected = {**NO_FORM, "failed_form": self.http.path}
        values = {**(rejected if flash is None else _rejected_form(flash)), **values}
        if self.interrupted_form is not None and flash is None:
            flash = Flash("warning", RETURNED)
            values |= {"failed_form": self.interrupted_form.action, "page_given": self.form}
            self.set_cookie(self.layout.cookie_named(interrupted_form.COOKIE), "", 0)
        # Templates use these names to pass a form's errors and values to a macro.
        values.setdefault("errors", values["page_errors"])
        values.setdefault("given", values["page_given"])
        text = self.layout.render(
            template,
            request=self,
            flash=flash,
            csrf=self.csrf,
            visitor=self._visitor,
            environment=self.environment_or_none,
            may=self.may,
            here=self.http.path,
            bank_name=self.services.banks.name_of,
            bank_text=self.services.banks.text_of,
            **values,
        )
        response = PageResponse.html(
            text, status, headers={**NO_STORE, **(headers or {})}, cookies=self._cookies
        )
        return response.compressed() if self._is_compressible else response

    @property
    def _is_compressible(self) -> bool:
        """Whether the page can be compressed without revealing secrets (the BREACH attack).

        The size of a compressed page reveals whether text from the request also occurs elsewhere in
        the page. So a page is not compressed if another site may have caused the request. A
        response to a form is not compressed either, because only such pages show new secrets.
        """
        headers = self.http.headers
        return (
            self.http.method == "GET"
            and self.interrupted_form is None
            and headers.get("sec-fetch-site") in ("same-origin", "none")
            and "gzip" in headers.get("accept-encoding", "")
        )

    def redirect(
        self,
        path: str,
        *,
        done: str | None = None,
        warning: str | None = None,
        failed: str | None = None,
        query: Mapping[str, str] | None = None,
    ) -> PageResponse:
        """Redirects to a page of the dashboard or console, which shows the message once."""
        messages = (("danger", failed), ("warning", warning), ("success", done))
        shown = (Flash(tone, text) for tone, text in messages if text is not None)
        return self._redirect(path, next(shown, None), query)

    def _redirect(
        self, path: str, flash: Flash | None, query: Mapping[str, str] | None = None
    ) -> PageResponse:
        if flash is not None:
            name = self.layout.cookie_named(FLASH)
            self.set_cookie(name, _write_flash(flash), FLASH_SECONDS, path="/")
        target = self.at(path) + (f"?{urlencode(query)}" if query else "")
        return PageResponse.redirect(target, headers=NO_STORE, cookies=self._cookies)

    def leave(self, url: str) -> PageResponse:
        """Redirects to another site."""
        return PageResponse.redirect(url, headers=NO_STORE, cookies=self._cookies)

    def poll_response(self, state: str) -> PageResponse | None:
        """Returns the response for a page that polls for changes, or None for other requests.

        The response is empty. If the state has changed, a header makes the page reload.
        """
        known = self.query.text("known")
        if not known:
            return None
        headers = NO_STORE if known == state else {**NO_STORE, "HX-Refresh": "true"}
        return PageResponse.empty(204, headers=headers)

    @property
    def approvals(self) -> Approvals:
        """The service for changes that may need a second person's approval."""
        services = self.services
        is_production_mode = not services.is_development
        return Approvals(services.db, services.keyring, is_production_mode)

    def at(self, path: str) -> str:
        """Returns the full path of a page: `/dashboard/payments` for `/payments`.

        A path that starts with `~` gets the environment: `/dashboard/sandbox/payments` for
        `~/payments`.
        """
        if path.startswith("~"):
            path = f"/{self.environment}{path[1:]}"
        return self.layout.root + path

    def form_with_errors(
        self, template: str, refusal: Refusal, *, at: FieldsByRefusal = (), **values: Any
    ) -> PageResponse:
        """Renders the form again, with the submitted values and the errors of its fields."""
        status = refusal.status if refusal.status >= 400 else 422
        return self.page(
            template,
            status,
            headers=_retry_after(refusal),
            problem_text=refusal.text,
            page_errors=field_errors(refusal, at),
            page_given=self.form,
            **values,
        )

    def redirect_with_errors(
        self, path: str, refusal: Refusal, *, keep: Sequence[str] = (), at: FieldsByRefusal = ()
    ) -> PageResponse:
        """Redirects to the form's page, which shows an error beside each invalid field.

        `keep` names the fields whose values the form shows again. These values are stored in a
        cookie, so `keep` must not name a secret.
        """
        flash = Flash(
            "danger",
            refusal.text,
            errors=field_errors(refusal, at),
            given={name: self.form.text(name)[:KEPT_LENGTH_MAX] for name in keep},
            form=self.http.path,
        )
        return self._redirect(path, flash)

    def error_page(self, refusal: Refusal) -> PageResponse:
        """Renders a page with the error's message."""
        headers = _retry_after(refusal)
        return self.page("refused.html", refusal.status, headers=headers, refusal=refusal)

    @property
    def session_token(self) -> str:
        return self.http.cookies.get(self.layout.cookie, "")

    @property
    def address(self) -> str:
        return self.http.address(self.services.trusted_proxies)

    @property
    def user_agent(self) -> str:
        return self.http.headers.get("user-agent", "")

    def restore_form(self) -> None:
        """Restores the form values that the user submitted after the session had ended."""
        cookie = self.http.cookies.get(self.layout.cookie_named(interrupted_form.COOKIE), "")
        form = interrupted_form.read(self.services.keyring, cookie) if cookie else None
        if form is None or form.page != self.http.path:
            return
        if self._visitor is not None and form.person_id == self._visitor.person_id:
            self.interrupted_form, self.form = form, Form(form.pairs)

    def mark_stepped_up(self) -> None:
        """Marks the user as having confirmed their identity, for the rest of this request."""
        self._visitor = msgspec.structs.replace(
            self.visitor,
            stepped_up_at=datetime.now(UTC),
            second_factor=self.visitor.has_totp,
        )

    def start_session(self, session: NewSession) -> None:
        """Sets the session cookie."""
        seconds = int(session.lasts.total_seconds())
        self.set_cookie(self.layout.cookie, session.token, seconds)

    @property
    def device_cookie(self) -> str:
        return self.http.cookies.get(self._device_name, "")

    def remember_device(self, cookie: str) -> None:
        """Sets the device cookie, so that failed sign-ins elsewhere do not block this browser."""
        self.set_cookie(self._device_name, cookie, int(devices.LASTS.total_seconds()))

    @property
    def _device_name(self) -> str:
        return self.layout.cookie_named(f"manilla_device_{self.realm}")

    def set_cookie(self, name: str, value: str, seconds: int, *, path: str | None = None) -> None:
        root, is_secure = self.layout.root, self.layout.is_secure
        self._cookies.append(SetCookie(name, value, seconds, path or root, is_secure))


async def _not_confirmed() -> None:
    raise AssertionError("the route does not use step_up")


def safe_path(layout: Layout, wanted: str, otherwise: str) -> str:
    """Returns a URL's path below `/dashboard` or `/console`, or `otherwise` for other URLs."""
    is_plain = wanted.isascii() and wanted.isprintable() and "\\" not in wanted
    # Browsers interpret `%2e` in a path as a dot.
    segments = wanted.partition("?")[0].lower().replace("%2e", ".").split("/")
    is_ours = is_plain and wanted.startswith(layout.root + "/") and ".." not in segments
    return wanted[len(layout.root) :] if is_ours else otherwise


def _rejected_form(flash: Flash) -> dict[str, Any]:
    return {
        "problem_text": flash.text if flash.tone == "danger" else None,
        "page_errors": flash.errors,
        "page_given": Form(flash.given) if flash.given else None,
        "failed_form": flash.form,
    }


def _retry_after(refusal: Refusal) -> dict[str, str]:
    seconds = refusal.retry_after_seconds
    return {} if seconds is None else {"Retry-After": str(seconds)}


def _write_flash(flash: Flash) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(flash)).decode()


def _read_flash(cookie: str | None) -> Flash | None:
    if not cookie:
        return None
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(cookie), type=Flash)
    except (binascii.Error, ValueError, msgspec.DecodeError):
        return None
