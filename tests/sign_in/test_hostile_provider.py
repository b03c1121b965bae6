"""A merchant's provider can be an attacker. It must not harm other merchants or the process."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from joserfc.jwk import ECKey

from manilla.notify import delivery
from manilla.people.company import openid, tokens
from manilla.people.company.openid import CALLS_OF_MERCHANT, OpenIdClient, SignInUnavailable
from manilla.people.company.providers import SignInProvider
from manilla.people.company.tokens import TokenRefused
from tests.sign_in import hostile_provider
from tests.sign_in.hostile_provider import HostileProvider


@pytest.fixture
async def hostile() -> AsyncIterator[HostileProvider]:
    async with hostile_provider.running() as provider:
        yield provider


@pytest.fixture
async def client() -> AsyncIterator[OpenIdClient]:
    connections = 2 * CALLS_OF_MERCHANT
    async with delivery.open_client(is_public_only=False, connections=connections) as http:
        yield OpenIdClient(http, http, is_production_mode=False)


def _provider(hostile: HostileProvider) -> SignInProvider:
    about: dict[str, Any] = {"groups_claim": "groups", "roles": {}, "is_required": False}
    return SignInProvider(
        *(1, "a-key", hostile.issuer, "manilla"),
        **about,
        break_glass="",
        updated_at=datetime.now(UTC),
    )


async def test_a_provider_that_hangs_does_not_delay_another_merchants_provider(
    hostile: HostileProvider, client: OpenIdClient
) -> None:
    async with hostile_provider.running() as other:
        hostile.hangs = True
        calls = [asyncio.create_task(client.check(1, hostile.issuer)) for _ in range(30)]
        await asyncio.sleep(0.2)
        started = time.monotonic()
        await client.check(2, other.issuer)
        assert time.monotonic() - started < 2
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)


@pytest.mark.parametrize(
    "document",
    [b'{"issuer":' + b"[" * 100_000, b'"' + b"x" * 300_000, b"\xff", b"[]", b"{}"],
    ids=len,
)
async def test_metadata_that_cannot_be_read_are_reported(
    hostile: HostileProvider, client: OpenIdClient, document: bytes
) -> None:
    hostile.document = document
    with pytest.raises(SignInUnavailable):
        await client.check(1, hostile.issuer)


async def test_only_the_key_that_a_token_names_is_parsed(
    hostile: HostileProvider, client: OpenIdClient
) -> None:
    broken = {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "kid": "broken"}
    hostile.other_keys = [broken, {"kty": "new", "kid": "real"}]
    token = hostile.logout_token("manilla")
    assert (await tokens.logout_token(client, _provider(hostile), token))["sub"] == "ada"


async def test_many_keys_with_the_same_id_take_no_time(
    hostile: HostileProvider, client: OpenIdClient
) -> None:
    key = ECKey.generate_key("P-256", {"kid": "real"}).as_dict(private=False)
    hostile.other_keys = [dict(key) for _ in range(1500)]
    await client.keys(_provider(hostile))
    started = time.process_time()
    with pytest.raises(TokenRefused):
        await tokens.logout_token(client, _provider(hostile), hostile.logout_token("manilla"))
    assert time.process_time() - started < 0.05


@pytest.mark.parametrize(
    "claims", [{"sub": "a\x00b"}, {"sid": 5}, {"sid": "a\x00"}, {"sid": "x" * 300}], ids=str
)
async def test_an_id_that_cannot_be_stored_is_rejected(
    hostile: HostileProvider, client: OpenIdClient, claims: dict[str, Any]
) -> None:
    with pytest.raises(TokenRefused):
        token = hostile.logout_token("manilla", **claims)
        await tokens.logout_token(client, _provider(hostile), token)


async def test_tokens_with_an_unknown_key_do_not_cause_a_call_each(
    hostile: HostileProvider, client: OpenIdClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openid, "REFETCH_SECONDS", 0.2)
    for number in range(60):
        token = hostile.logout_token("manilla", kid=f"unknown-{number}")
        with pytest.raises(TokenRefused):
            await tokens.logout_token(client, _provider(hostile), token)
        await asyncio.sleep(0.01)
    assert 2 <= hostile.paths.count("/keys") < 15
