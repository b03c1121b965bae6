"""The language of the checkout pages: chosen on the page, or preferred by the browser.

The choice is a query parameter. A cookie remembers it, and the pages' own links repeat it, because
browsers block cookies in a frame of another site.
"""

from urllib.parse import urlencode

from manilla.languages import language
from manilla.languages.language import CustomerLanguage
from manilla.services import Services
from manilla.web.serving.request import Pairs, WebRequest
from manilla.web.serving.response import PageResponse, SetCookie

PARAMETER = "lang"
COOKIE = "manilla_language"
SECURE_COOKIE = f"__Secure-{COOKIE}"  # over https, as for all cookies
REMEMBERED_SECONDS = 365 * 86_400


def language_of(http: WebRequest) -> CustomerLanguage:
    chosen = chosen_on_page(http) or _remembered(http)
    return chosen or language.of_browser(http.headers.get("accept-language", ""))


def chosen_on_page(http: WebRequest) -> CustomerLanguage | None:
    return language.languages().get(http.query.get(PARAMETER, ""))


def _remembered(http: WebRequest) -> CustomerLanguage | None:
    codes = (http.cookies.get(name, "") for name in (SECURE_COOKIE, COOKIE))
    return language.languages().get(next(filter(None, codes), ""))


def remember(services: Services, http: WebRequest, response: PageResponse) -> PageResponse:
    """Adds the cookie if the customer has just chosen another language."""
    chosen = chosen_on_page(http)
    if chosen is None or chosen is _remembered(http):
        return response
    is_secure = services.base_url.startswith("https:")
    name = SECURE_COOKIE if is_secure else COOKIE
    cookie = SetCookie(name, chosen.code, REMEMBERED_SECONDS, "/", is_secure)
    return response.with_cookie(cookie)


def links(query: Pairs) -> list[tuple[CustomerLanguage, str]]:
    """Returns each language with the URL of the page that has this query in it."""
    others = urlencode([pair for pair in query if pair[0] != PARAMETER])
    start = f"?{others}{'&' if others else ''}{PARAMETER}="
    return [(each, start + each.code) for each in language.languages().values()]
