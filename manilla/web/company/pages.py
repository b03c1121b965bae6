"""Company sign-in: the way to the provider and back, and the provider's request to end sessions.

The policy `form-action 'self'` stays strict: browsers also apply it to redirects after a form. So
no form leads to the provider, only links, and the page after signing out.
"""

import base64
import binascii
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from manilla.audit.actor import acting
from manilla.kit.crypto import Keyring, SealError
from manilla.kit.database.connections import Database
from manilla.kit.errors import Refusal
from manilla.people import throttle
from manilla.people.company import identities, providers
from manilla.people.company.access import ProviderResponse
from manilla.people.company.identities import CompanySignInRefused
from manilla.people.company.openid import AuthorizationRequest, SignInUnavailable
from manilla.people.company.providers import NoProvider, SignInProvider
from manilla.people.roles import Realm
from manilla.people.throttle import Bucket
from manilla.web.form_body import read_form
from manilla.web.layout import Layout
from manilla.web.page_request import PageRequest, safe_path
from manilla.web.routes import SIGNED_IN, Route
from manilla.web.serving.request import WebRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import UrlHandler

COOKIE = "manilla_company"  # the request that the provider must respond to
COOKIE_SECONDS = 900
LINK = "manilla_company_link"  # the key of the provider with which this browser signed in last
LINK_SECONDS = 365 * 24 * 3600
START = "/sign-in/company/{company:str}"
CALLBACK, SIGN_OUT = "/callback", "/sign-out"
CODE = "/account/company/code"
KEY_LENGTH_MAX = 40


async def start(request: PageRequest) -> PageResponse:
    """Leads to the provider. The console's own provider needs no page in between.

    Anybody can set up a merchant's provider, so its host is shown before the browser goes there.
    """
    provider = await _provider(request)
    onward = request.query.text("next", at_most=2000)
    wanted = AuthorizationRequest.new(provider, onward)
    return await _to_provider(request, provider, wanted)


async def _provider(request: PageRequest) -> SignInProvider:
    key = request.parameter("company")[:KEY_LENGTH_MAX]
    return await providers.of_key(request.db, request.realm, key)


async def _to_provider(
    request: PageRequest, provider: SignInProvider, wanted: AuthorizationRequest
) -> PageResponse:
    uri = redirect_uri(request, provider)
    buckets = throttle.using_provider(request.realm, request.address)
    async with failure_limit(request.db, buckets):
        client = request.services.company.client
        url = await client.authorization_url(provider, wanted, uri)
    _keep(request, wanted)
    if request.realm is Realm.CONSOLE and request.http.method == "GET":
        return request.leave(url)
    return request.page("company_sign_in.html", url=url, host=urlsplit(url).hostname)


@contextlib.asynccontextmanager
async def failure_limit(db: Database, buckets: Sequence[Bucket]) -> AsyncIterator[None]:
    await throttle.take(db, buckets)
    yield
    await throttle.give_back(db, buckets)


def redirect_uri(request: PageRequest, provider: SignInProvider) -> str:
    """Each provider has its own URL, so that one cannot pass on the response of another."""
    return request.services.base_url + request.at(f"/sign-in/company/{provider.key}{CALLBACK}")


async def finish(request: PageRequest) -> PageResponse:
    """Handles the provider's response, which works once, and only in the browser that started."""
    provider, wanted = await _provider(request), _wanted(request)
    request.set_cookie(request.layout.cookie_named(COOKIE), "", 0)
    query = request.query
    response = ProviderResponse(
        query.text("state", at_most=200),
        query.text("code", at_most=4000),
        query.text("iss", at_most=500) or None,
        query.text("error", at_most=100),
    )
    company, uri = request.services.company, redirect_uri(request, provider)
    buckets = throttle.using_provider(request.realm, request.address)
    async with failure_limit(request.db, buckets):
        claims = await company.accept(provider, wanted, response, uri)
    assert wanted is not None
    if wanted.connects is not None or wanted.confirms is not None:
        return await _use(request, provider, wanted, claims["sub"])
    person, session = await company.begin_session(
        provider, claims, request.address, request.user_agent
    )
    request.start_session(session)
    request.set_cookie(request.layout.cookie_named(LINK), provider.key, LINK_SECONDS)
    onward = safe_path(request.layout, wanted.onward, "/")
    if person.has_totp:
        return request.redirect(CODE, query={"next": wanted.onward})
    return request.redirect(onward)


async def _use(
    request: PageRequest, provider: SignInProvider, wanted: AuthorizationRequest, subject: str
) -> PageResponse:
    """Connects the signed-in user's account, or confirms the identity of the session's user."""
    if not request.is_signed_in:
        raise NoProvider
    visitor, onward = request.visitor, safe_path(request.layout, wanted.onward, "/account")
    if wanted.confirms is not None:
        company = request.services.company
        await company.confirm(provider, visitor, subject, wanted.confirms)
        return request.redirect(onward)
    if wanted.connects != visitor.person_id:
        raise NoProvider
    await identities.connect(request.db, provider, subject, visitor.person_id)
    return request.redirect(onward, done="Your account is connected with your company account.")


async def connect(request: PageRequest) -> PageResponse:
    """Connects the user's account with their company account, after they confirmed their identity.

    This is a form, because a link on another site must not connect a user with an attacker.
    """
    visitor = request.visitor
    provider = await _own_provider(request)
    if provider is None or visitor.is_by_company:
        raise NoProvider
    purpose = {"connects": visitor.person_id}
    wanted = AuthorizationRequest.new(provider, "", **purpose)
    return await _to_provider(request, provider, wanted)


async def disconnect(request: PageRequest) -> PageResponse:
    provider = await _own_provider(request)
    if provider is None:
        raise NoProvider
    if request.visitor.must_use_company:
        # Otherwise a password would be enough to connect another company account instead.
        raise CompanySignInRefused("Sign in with your company first.")
    await identities.disconnect(request.db, provider, request.visitor.person_id)
    return request.redirect("/account", done="Your account is disconnected.")


async def confirm(request: PageRequest) -> PageResponse:
    """Leads to the provider, at which a user without password and code confirms their identity."""
    provider, visitor = await _own_provider(request), request.visitor
    if provider is None or not visitor.is_by_company:
        raise NoProvider
    onward, purpose = request.query.text("next", at_most=2000), {"confirms": visitor.session_id}
    wanted = AuthorizationRequest.new(provider, onward, **purpose)
    return await _to_provider(request, provider, wanted)


async def enter_code(request: PageRequest) -> PageResponse:
    """The step-up of this route has verified the code of the second factor."""
    onward = request.query.text("next", at_most=2000)
    return request.redirect(safe_path(request.layout, onward, "/"))


async def about(request: PageRequest) -> dict[str, Any]:
    """Returns what the account page shows."""
    provider = await _own_provider(request)
    if provider is None:
        return {"company": None}
    person_id = request.visitor.person_id
    is_connected = await identities.is_connected(request.db, provider, person_id)
    return {"company": provider, "is_connected": is_connected}


async def _own_provider(request: PageRequest) -> SignInProvider | None:
    visitor = request.visitor
    merchant_id = providers.CONSOLE if request.realm is Realm.CONSOLE else visitor.merchant_id
    return None if merchant_id is None else await providers.find(request.db, merchant_id)


async def last_used(request: PageRequest) -> SignInProvider | None:
    """Returns the provider that the sign-in page offers."""
    if request.realm is Realm.CONSOLE:
        return await providers.find(request.db, providers.CONSOLE)
    key = request.http.cookies.get(request.layout.cookie_named(LINK), "")[:KEY_LENGTH_MAX]
    try:
        return await providers.of_key(request.db, request.realm, key) if key else None
    except NoProvider:
        return None


async def sign_out(request: PageRequest) -> PageResponse | None:
    """Returns a page that also ends the session at the provider, or None if there is none."""
    if not request.visitor.is_by_company or (provider := await _own_provider(request)) is None:
        return None
    return_to = request.services.base_url + request.at("/sign-in")
    try:
        url = await request.services.company.client.sign_out_url(provider, return_to)
    except SignInUnavailable:
        return None
    if url is None:
        return None
    refresh = {"Refresh": f"0;url={url}"}
    return request.page("company_sign_out.html", headers=refresh, url=url, host=provider.host)


def sign_out_handler(layout: Layout) -> UrlHandler:
    """The URL at which a provider ends sessions. Its signed token replaces session and CSRF."""

    async def respond(http: WebRequest) -> PageResponse:
        headers, services = {"Cache-Control": "no-store"}, layout.services
        address = http.address(services.trusted_proxies)
        try:
            key = str(http.parameters["company"])[:KEY_LENGTH_MAX]
            provider = await providers.of_key(services.db, layout.realm, key)
            token = (await read_form(http)).text("logout_token", at_most=50_000)
            buckets = throttle.ending_sessions(provider.merchant_id, address)
            with acting(identities.ACTOR, address):
                async with failure_limit(services.db, buckets):
                    await services.company.end_sessions(provider, token)
        except Refusal as refusal:
            status = refusal.status if refusal.status in (429, 503) else 400
            body = {"error": "invalid_request", "error_description": refusal.text}
            return PageResponse.json(body, status, headers=headers)
        return PageResponse.json({}, headers=headers)

    return UrlHandler("POST", layout.root + START + SIGN_OUT, respond)


def _keep(request: PageRequest, wanted: AuthorizationRequest) -> None:
    keyring = request.services.keyring
    sealed = keyring.seal(msgspec.json.encode(wanted), _context(request.realm))
    value = base64.urlsafe_b64encode(sealed).decode()
    request.set_cookie(request.layout.cookie_named(COOKIE), value, COOKIE_SECONDS)


def _wanted(request: PageRequest) -> AuthorizationRequest | None:
    cookie = request.http.cookies.get(request.layout.cookie_named(COOKIE), "")
    return read(request.services.keyring, request.realm, cookie)


def read(keyring: Keyring, realm: Realm, cookie: str) -> AuthorizationRequest | None:
    try:
        plain = keyring.open(base64.urlsafe_b64decode(cookie), _context(realm))
        return msgspec.json.decode(plain, type=AuthorizationRequest)
    except (binascii.Error, ValueError, SealError, msgspec.DecodeError):
        return None


def _context(realm: Realm) -> str:
    return f"company-sign-in:{realm}"


ROUTES = [
    Route("GET", START, start, None),
    Route("GET", START + CALLBACK, finish, None),
    Route("GET", CODE, enter_code, SIGNED_IN, step_up=True, enrolls=True),
    Route("POST", CODE, enter_code, SIGNED_IN, step_up=True, enrolls=True),
    Route("POST", "/account/company/connect", connect, SIGNED_IN, step_up=True),
    Route("POST", "/account/company/disconnect", disconnect, SIGNED_IN, step_up=True),
    Route("GET", "/account/company/confirm", confirm, SIGNED_IN, enrolls=True),
]
