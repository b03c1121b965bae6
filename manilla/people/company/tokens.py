"""Verifies the tokens that a provider signs: ID tokens, and tokens that end sessions.

Imported only when a token arrives, so that an installation without company sign-in does not load
the library.
"""

import base64
import hashlib
import hmac
import time
from typing import Any

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from joserfc.jws import JWSRegistry, extract_compact

from manilla.kit.errors import Refusal
from manilla.kit.texts import is_line
from manilla.people.company.openid import SKEW_SECONDS, OpenIdClient
from manilla.people.company.providers import SignInProvider

# Signatures with a public key only. A shared secret or no signature at all is never accepted.
ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)
KEYS_MAX = 20  # with the same id; each takes time to parse
TOKEN_BYTES_MAX = 50_000
SUBJECT_LENGTH_MAX = 255
LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout"
LOGOUT_SECONDS_MAX = 600  # the maximum age of a token that ends sessions
_REGISTRY = JWSRegistry(algorithms=list(ALGORITHMS), strict_check_header=False)


class TokenRefused(Refusal):
    """A token is forged, replayed, expired or for somebody else. The text is for operators."""

    status, code = 403, "SIGN_IN_TOKEN_REFUSED"
    message = "The response of your company's sign-in is not valid. Sign in again."


async def id_token(
    client: OpenIdClient,
    provider: SignInProvider,
    token: str,
    *,
    nonce: str,
    access_token: str,
    since: float | None = None,
) -> dict[str, Any]:
    """Returns the claims of an ID token.

    `since` is the time after which the user must have authenticated, or None for any time.
    """
    found = await _decode(client, provider, token)
    claims = _check(found, provider, essential=("sub", "exp", "iat", "nonce"))
    _require(hmac.compare_digest(_text(claims, "nonce").encode(), nonce.encode()), "nonce")
    _check_party(claims, provider)
    if "at_hash" in claims:
        _require(_text(claims, "at_hash") == _half_hash(found.header["alg"], access_token), "hash")
    if since is not None:
        _require(_number(claims, "auth_time") >= since - SKEW_SECONDS, "auth_time")
    return claims


async def logout_token(
    client: OpenIdClient, provider: SignInProvider, token: str
) -> dict[str, Any]:
    """Returns the claims of a token that ends sessions (OpenID Connect Back-Channel Logout 1.0)."""
    claims = _check(await _decode(client, provider, token), provider, essential=("iat", "jti"))
    events = claims.get("events")
    _require(isinstance(events, dict) and LOGOUT_EVENT in events, "events")
    _require("nonce" not in claims, "nonce")  # an ID token is not accepted in its place
    _require("sub" in claims or "sid" in claims, "sub")
    _require(time.time() - _number(claims, "iat") < LOGOUT_SECONDS_MAX, "iat")
    return claims


async def _decode(client: OpenIdClient, provider: SignInProvider, token: str) -> jwt.Token:
    """Verifies the signature. If the key is unknown, fetches the keys again and retries once."""
    _require(len(token) <= TOKEN_BYTES_MAX, "length")
    keys = await client.keys(provider)
    try:
        return _verify(token, keys)
    except (JoseError, ValueError, TypeError, KeyError) as error:
        current = await client.keys(provider, again=True)
        if current == keys:
            raise TokenRefused(_refusal(type(error).__name__)) from None
    try:
        return _verify(token, current)
    except (JoseError, ValueError, TypeError, KeyError) as error:
        raise TokenRefused(_refusal(type(error).__name__)) from None


def _verify(token: str, keys: dict[str, Any]) -> jwt.Token:
    """Verifies with the key that the token names. A provider's set can have many, or new types."""
    name = extract_compact(token.encode()).headers().get("kid")
    usable = [
        key
        for key in keys["keys"]
        if isinstance(key, dict)
        and key.get("use", "sig") == "sig"
        and key.get("kty") in ("RSA", "EC", "OKP")
        and name in (None, key.get("kid"))
    ]
    key_set = KeySet.import_key_set({"keys": usable[:KEYS_MAX]})
    return jwt.decode(token, key_set, algorithms=list(ALGORITHMS), registry=_REGISTRY)


def _check(
    token: jwt.Token, provider: SignInProvider, essential: tuple[str, ...]
) -> dict[str, Any]:
    claims = token.claims
    options: dict[str, jwt.ClaimsOption] = {name: {"essential": True} for name in essential}
    options["iss"] = {"essential": True, "value": provider.issuer}
    options["aud"] = {"essential": True, "value": provider.client_id}
    rules = jwt.JWTClaimsRegistry(None, SKEW_SECONDS, **options)
    try:
        rules.validate(claims)
    except JoseError as error:
        raise TokenRefused(_refusal(error.description or str(error))) from None
    for name in {"sub", "sid"} & claims.keys():
        _require(is_line(_text(claims, name), SUBJECT_LENGTH_MAX), name)
    return claims


def _check_party(claims: dict[str, Any], provider: SignInProvider) -> None:
    """Checks that the token was issued to Manilla, if it has several audiences."""
    is_shared = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
    party = claims.get("azp", None if is_shared else provider.client_id)
    _require(party == provider.client_id, "azp")


def _half_hash(algorithm: str, access_token: str) -> str:
    size = algorithm[-3:] if algorithm[-3:] in ("256", "384", "512") else "512"
    digest = hashlib.new(f"sha{size}", access_token.encode()).digest()
    return base64.urlsafe_b64encode(digest[: len(digest) // 2]).rstrip(b"=").decode()


def _text(claims: dict[str, Any], name: str) -> str:
    value = claims.get(name)
    _require(isinstance(value, str), name)
    return str(value)


def _number(claims: dict[str, Any], name: str) -> float:
    value = claims.get(name)
    _require(isinstance(value, int | float) and not isinstance(value, bool), name)
    assert value is not None
    return float(value)


def _require(is_so: bool, what: str) -> None:
    if not is_so:
        raise TokenRefused(_refusal(what))


def _refusal(reason: str) -> str:
    return f"{TokenRefused.message} Reason: {reason}."
