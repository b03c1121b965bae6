"""A sign-in provider of an attacker: it sends any keys and any documents, or nothing at all."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web
from joserfc import jwt
from joserfc.jwk import RSAKey

LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout"


class HostileProvider:
    def __init__(self) -> None:
        self.issuer = ""
        self.key = RSAKey.generate_key(2048, {"kid": "real"})
        self.other_keys: list[dict[str, Any]] = []
        self.document: bytes | None = None  # the metadata, or None for valid metadata
        self.hangs = False
        self.paths: list[str] = []  # of the calls
        self.elsewhere = ""  # the URL at which users sign in, if it is not the issuer's

    async def serve(self, request: web.Request) -> web.Response:
        self.paths.append(request.path)
        if self.hangs:
            await asyncio.sleep(60)
        if request.path == "/keys":
            return web.json_response({"keys": [*self.other_keys, self.key.as_dict(private=False)]})
        if self.document is not None:
            return web.Response(body=self.document)
        return web.json_response(
            {
                "issuer": self.issuer,
                "authorization_endpoint": self.elsewhere or f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
            }
        )

    def logout_token(self, client_id: str, *, kid: str = "real", **claims: Any) -> str:
        valid = {"iss": self.issuer, "aud": client_id, "sub": "ada", "iat": int(time.time())}
        valid |= {"jti": "1", "events": {LOGOUT_EVENT: {}}}
        return jwt.encode({"alg": "RS256", "kid": kid}, valid | claims, self.key)


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[HostileProvider]:
    provider, application = HostileProvider(), web.Application()
    application.router.add_get("/{path:.*}", provider.serve)
    runner = web.AppRunner(application, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    provider.issuer = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield provider
    finally:
        await runner.cleanup()
