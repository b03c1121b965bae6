"""A checkout request, which contains the payment's signed link. Anyone with the link can pay.

The only cookie contains the chosen language, so the forms need no CSRF token. To forge a request,
another site would have to know the signature in the link.
"""

import contextlib
from collections.abc import Sequence
from datetime import UTC, datetime
from urllib.parse import urlencode

from manilla.checkout import language_choice
from manilla.kit.errors import Refusal
from manilla.languages.language import CustomerLanguage
from manilla.payments.checkout import CheckoutView
from manilla.payments.link import LinkState
from manilla.services import Services
from manilla.web.form_body import Part, read_parts
from manilla.web.forms import BadForm
from manilla.web.serving.request import WebRequest
from manilla.web.serving.response import TEXT, PageResponse

NO_STORE = {"Cache-Control": "no-store"}


class UnreadableForm(Refusal):
    status = 400


class CheckoutRequest:
    def __init__(self, services: Services, http: WebRequest) -> None:
        self.services = services
        self.http = http
        self.trx_id = str(http.parameters["trx_id"])
        self._expires = http.query.get("expires", "")
        self._signature = http.query.get("signature", "")
        self._parts: Sequence[Part] | None = None

    @property
    def link_state(self) -> LinkState:
        return self.services.links.check(self.trx_id, self._expires, self._signature)

    @property
    def link_expires_at(self) -> datetime:
        return datetime.fromtimestamp(int(self._expires), UTC)

    @property
    def language(self) -> CustomerLanguage:
        return language_choice.language_of(self.http)

    @property
    def wants_json(self) -> bool:
        return self.http.path.endswith("/status") or prefers_json(self.http.headers.get("accept"))

    async def field(self, name: str) -> str:
        """Returns the value of a form field, or "" if the form does not have the field."""
        if self._parts is None:
            try:
                self._parts = await read_parts(self.http)
            except BadForm:
                raise UnreadableForm from None
        values = (value for given, value in self._parts if given == name)
        return str(next(values, ""))

    async def view(self) -> CheckoutView:
        # Open pages poll the status, so only pages tell the customer's current language.
        language = None if self.wants_json else self.language
        return await self.services.checkout.view(self.trx_id, language)

    async def query_provider(self) -> None:
        """Sends a status query to the provider. If the query fails, the stored status is used."""
        with contextlib.suppress(Refusal):
            await self.services.checkout.look_again(self.trx_id)

    def url(self, page: str = "", **more: str) -> str:
        """Returns the URL of one of the payment's pages, without parameters from the provider."""
        chosen = language_choice.chosen_on_page(self.http)
        language = {} if chosen is None else {language_choice.PARAMETER: chosen.code}
        link = {"expires": self._expires, "signature": self._signature}
        query = urlencode({**link, **more, **language})
        return f"/checkout/{self.trx_id}{'/' if page else ''}{page}?{query}"

    def redirect(self, page: str = "", **more: str) -> PageResponse:
        response = redirect(self.url(page, **more))
        return language_choice.remember(self.services, self.http, response)


def redirect(url: str) -> PageResponse:
    return PageResponse(status=303, media_type=TEXT, headers={**NO_STORE, "Location": url})


def prefers_json(accept: str | None) -> bool:
    """Returns whether the client prefers JSON to HTML, according to the Accept header."""
    types = [_accepted(each) for each in (accept or "*/*").split(",")]
    for _, _, name in sorted(types, key=lambda each: each[:2], reverse=True):
        if name in ("*/*", "text/*", "text/html"):
            return False
        if name in ("application/*", "application/json", "*/json"):
            return True
    return False


def _accepted(text: str) -> tuple[float, int, str]:
    """Parses one media type of an Accept header into its quality, specificity and name."""
    name, *parameters = (each.strip().lower() for each in text.split(";"))
    given = dict(each.split("=", 1) for each in parameters if "=" in each)
    wild = name.count("*")
    specificity = 2 - wild if wild or given.keys() <= {"q"} else 3
    try:
        return int(100 * float(given.get("q", "1"))), specificity, name
    except ValueError:
        return 100, specificity, name
