"""Calls OpenID Connect providers: discovery, keys, tokens and user information.

A merchant's provider is called only at public IP addresses, like all URLs that merchants choose.
The operator's own provider may be in a private network. Nothing a provider sends is trusted before
`tokens` has verified its signature.
"""

import asyncio
import base64
import hashlib
import secrets
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from manilla.kit import outbound, time_limits
from manilla.kit.errors import Refusal
from manilla.kit.http import is_web_address
from manilla.kit.http_client.client import HttpClient
from manilla.kit.http_client.errors import HttpError
from manilla.people.company.identities import CompanySignInRefused
from manilla.people.company.providers import SignInProvider

BODY_BYTES_MAX = 256_000
CALLS_OF_MERCHANT = 4  # at the same time, so that a slow provider does not delay the others
SKEW_SECONDS = 60  # how much a provider's clock can differ
KEPT_SECONDS = 3600  # after this time, metadata and keys are fetched again
# A token with an unknown key makes Manilla fetch the keys again, because the provider may have
# rotated them. Forged tokens must not cause many such calls.
REFETCH_SECONDS = 10
PROVIDERS_KEPT_MAX = 1000
SCOPE = "openid profile email"


class SignInUnavailable(Refusal):
    """The provider cannot be used now. Existing sessions do not depend on it."""

    status, code = 503, "SIGN_IN_PROVIDER_UNAVAILABLE"
    message = "Your company's sign-in does not respond."


class _Metadata(msgspec.Struct, frozen=True):
    """The part of a provider's metadata that Manilla uses (OpenID Connect Discovery 1.0)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None = None
    end_session_endpoint: str | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    authorization_response_iss_parameter_supported: bool = False
    scopes_supported: tuple[str, ...] = ()

    @property
    def urls(self) -> list[str]:
        urls = [self.authorization_endpoint, self.token_endpoint, self.jwks_uri]
        return urls + [url for url in (self.userinfo_endpoint, self.end_session_endpoint) if url]


class TokenReply(msgspec.Struct, frozen=True):
    id_token: str
    access_token: str


class _Kept(msgspec.Struct):
    metadata: _Metadata
    keys: dict[str, Any]
    until: float
    keys_fetched_at: float


class AuthorizationRequest(msgspec.Struct, frozen=True):
    """A request to sign in, kept in the browser's encrypted cookie until the provider responds."""

    merchant_id: int
    issuer: str
    state: str
    nonce: str
    verifier: str  # of PKCE
    started_at: float
    onward: str
    connects: int | None = None  # the signed-in user who connects their account
    confirms: int | None = None  # the session whose user confirms their identity

    @classmethod
    def new(cls, provider: SignInProvider, onward: str, **purpose: int) -> "AuthorizationRequest":
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        return cls(
            provider.merchant_id,
            provider.issuer,
            state,
            nonce,
            verifier,
            started_at=time.time(),
            onward=onward,
            **purpose,
        )


class OpenIdClient:
    def __init__(
        self, private: HttpClient, public: HttpClient, *, is_production_mode: bool
    ) -> None:
        self._private = private  # for the operator's provider
        self._public = public  # for merchants' providers
        self._is_production_mode = is_production_mode
        self._kept: dict[tuple[bool, str], _Kept] = {}
        self._calls: defaultdict[int, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(CALLS_OF_MERCHANT)
        )

    async def check(self, merchant_id: int, issuer: str) -> None:
        """Fetches a new provider's metadata and keys. Raises an error if that fails."""
        await self._fetch(merchant_id, issuer)

    async def keys(self, provider: SignInProvider, *, again: bool = False) -> dict[str, Any]:
        """Returns the provider's public keys. `again` fetches them again after a rotation."""
        kept = await self._provider(provider)
        if again and _now() - kept.keys_fetched_at >= REFETCH_SECONDS:
            kept.keys_fetched_at = _now()
            kept.keys = await self._get(provider.merchant_id, kept.metadata.jwks_uri)
        return kept.keys

    async def authorization_url(
        self, provider: SignInProvider, request: AuthorizationRequest, redirect_uri: str
    ) -> str:
        metadata = (await self._provider(provider)).metadata
        digest = hashlib.sha256(request.verifier.encode()).digest()
        wants_groups = "groups" in metadata.scopes_supported
        query = {
            "response_type": "code",
            "client_id": provider.client_id,
            "redirect_uri": redirect_uri,
            "scope": SCOPE + (" groups" if wants_groups else ""),
            "state": request.state,
            "nonce": request.nonce,
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        if request.confirms is not None:
            query |= {"prompt": "login", "max_age": "0"}
        return _with_query(metadata.authorization_endpoint, query)

    async def check_issuer(self, provider: SignInProvider, given: str | None) -> None:
        """Checks which provider sent the response (RFC 9207).

        Without this check, a provider could pass on the code of another one (a mix-up attack).
        """
        metadata = (await self._provider(provider)).metadata
        is_missing = given is None and metadata.authorization_response_iss_parameter_supported
        if is_missing or given not in (None, provider.issuer):
            raise CompanySignInRefused("The response did not come from your company's sign-in.")

    async def exchange(
        self,
        provider: SignInProvider,
        request: AuthorizationRequest,
        code: str,
        redirect_uri: str,
        secret: str,
    ) -> TokenReply:
        """Exchanges the authorization code for tokens."""
        metadata = (await self._provider(provider)).metadata
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": request.verifier,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        if "client_secret_basic" in metadata.token_endpoint_auth_methods_supported:
            pair = f"{quote(provider.client_id, safe='')}:{quote(secret, safe='')}"
            headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        else:
            form |= {"client_id": provider.client_id, "client_secret": secret}
        body = urlencode(form).encode()
        url = metadata.token_endpoint
        found = await self._call(provider.merchant_id, "POST", url, headers, body)
        tokens: TokenReply = _convert(found, TokenReply, url)
        return tokens

    async def user_information(self, provider: SignInProvider, access_token: str) -> dict[str, Any]:
        """Returns claims that many providers leave out of the ID token. They are not signed."""
        url = (await self._provider(provider)).metadata.userinfo_endpoint
        if url is None:
            return {}
        headers = {"Authorization": f"Bearer {access_token}"}
        return await self._get(provider.merchant_id, url, headers)

    async def sign_out_url(self, provider: SignInProvider, return_to: str) -> str | None:
        """Returns the URL that also ends the session at the provider, or None if it has none."""
        endpoint = (await self._provider(provider)).metadata.end_session_endpoint
        query = {"client_id": provider.client_id, "post_logout_redirect_uri": return_to}
        return None if endpoint is None else _with_query(endpoint, query)

    async def _provider(self, provider: SignInProvider) -> _Kept:
        kept = self._kept.get((not provider.merchant_id, provider.issuer))
        if kept is not None and kept.until > _now():
            return kept
        return await self._fetch(provider.merchant_id, provider.issuer)

    async def _fetch(self, merchant_id: int, issuer: str) -> _Kept:
        url = issuer.rstrip("/") + "/.well-known/openid-configuration"
        metadata = _convert(await self._get(merchant_id, url), _Metadata, url)
        if metadata.issuer != issuer:
            raise SignInUnavailable(f"The provider's issuer is {metadata.issuer[:200]}.")
        for each in metadata.urls:
            is_encrypted = urlsplit(each).scheme == "https" or not self._is_production_mode
            if not is_web_address(each) or not is_encrypted:
                raise SignInUnavailable("The provider's metadata contain a URL without https.")
        keys = await self._get(merchant_id, metadata.jwks_uri)
        kept = _Kept(metadata, keys, _now() + KEPT_SECONDS, _now())
        if len(self._kept) >= PROVIDERS_KEPT_MAX:
            self._kept.clear()
        self._kept[not merchant_id, issuer] = kept
        return kept

    async def _get(
        self, merchant_id: int, url: str, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        return await self._call(merchant_id, "GET", url, headers or {})

    async def _call(
        self,
        merchant_id: int,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
    ) -> dict[str, Any]:
        """Calls the provider, and returns the JSON object of its response."""
        client, host = self._public if merchant_id else self._private, urlsplit(url).hostname
        limit = time_limits.current.sign_in_provider_seconds
        try:
            async with asyncio.timeout(limit), self._calls[merchant_id]:
                reply = await client.request(
                    method, url, headers=headers, body=body, body_max=BODY_BYTES_MAX
                )
        except TimeoutError:
            raise SignInUnavailable(f"{host} did not respond in time. {_ADVICE}") from None
        except (HttpError, ValueError) as error:
            text = f"{host} cannot be reached: {outbound.describe(error)}. {_ADVICE}"
            raise SignInUnavailable(text) from None
        if reply.status != 200 or reply.is_cut:
            raise SignInUnavailable(f"{host} responded with status {reply.status}. {_ADVICE}")
        try:
            found: dict[str, Any] = msgspec.json.decode(bytes(reply.body), type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise SignInUnavailable(f"{host} sent an unreadable response. {_ADVICE}") from None
        return found


_ADVICE = "Try again later. Users who are signed in can continue."


def _convert(found: object, kind: type[Any], url: str) -> Any:
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        host = urlsplit(url).hostname
        raise SignInUnavailable(f"The response of {host} is not valid: {error}.") from None


def _with_query(url: str, query: Mapping[str, str]) -> str:
    return f"{url}{'&' if urlsplit(url).query else '?'}{urlencode(query)}"


def _now() -> float:
    return asyncio.get_running_loop().time()
