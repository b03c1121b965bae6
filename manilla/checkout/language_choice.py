"""The language of the checkout pages: chosen on the page, or preferred by the browser.

The choice is a query parameter. A cookie remembers it, and the pages' own links repeat it, because
browsers block cookies in a frame of another site.
"""

from urllib.parse import urlencode

from manilla.languages import language
from manilla.languages.language import CustomerLanguage
from manilla.services import Services
from manilla.web.serving.request import WebRequest
from manilla.web.serving.response import PageResponse, SetCookie

PARAMETER = "lang"
COOKIE = "manilla_language"
REMEMBERED_SECONDS = 365 * 86_400


def language_of(http: WebRequest) -> CustomerLanguage:
    chosen = chosen_on_page(http) or language.languages().get(http.cookies.get(COOKIE, ""))
    return chosen or language.of_browser(http.headers.get("accept-language", ""))


def chosen_on_page(http: WebRequest) -> CustomerLanguage | None:
    return language.languages().get(http.query.get(PARAMETER, ""))


def remember(services: Services, http: WebRequest, response: PageResponse) -> PageResponse:
    """Adds the cookie if the customer has just chosen another language."""
    chosen = chosen_on_page(http)
    if chosen is None or http.cookies.get(COOKIE) == chosen.code:
        return response
    is_secure = services.base_url.startswith("https:")
    cookie = SetCookie(COOKIE, chosen.code, REMEMBERED_SECONDS, "/", is_secure)
    return response.with_cookie(cookie)


def url_in(http: WebRequest, wanted: CustomerLanguage) -> str:
    """Returns the URL of this page in another language."""
    others = [(name, value) for name, value in http.query_pairs if name != PARAMETER]
    return f"{http.path}?{urlencode([*others, (PARAMETER, wanted.code)])}"
