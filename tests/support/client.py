"""A merchant's API client, which signs and sends exactly the given bytes."""

import asyncio
import json
import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.merchants import merchants
from manilla.merchants.credentials import NewCredentials
from manilla.merchants.merchants import MerchantStatus, NewMerchant
from tests.support.signing import sign
from tests.support.timeouts import TIMEOUT_SECONDS


class Reply(msgspec.Struct, frozen=True):
    status: int
    headers: dict[str, str]  # header names in lower case
    body: bytes
    location: str = ""  # the value of the Location header, exactly as the server sent it
    cookies: dict[str, str] = {}

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str | None:
        code: str | None = self.json.get("error_code")
        return code


def _new_address() -> str:
    """Returns a new IP address for each caller, so that tests do not share a rate limit."""
    return ".".join(["10", *(str(random.randrange(256)) for _ in range(3))])


class Site(msgspec.Struct, frozen=True):
    """A running web process that trusts the tests' X-Forwarded-For header."""

    port: int
    address: str = msgspec.field(default_factory=_new_address)

    def from_new_ip(self) -> "Site":
        return Site(self.port)

    async def send(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
        body: bytes = b"",
    ) -> Reply:
        pairs = list(headers.items()) if isinstance(headers, Mapping) else list(headers)
        lines = [f"{method} {target} HTTP/1.1", "Host: manilla", "Connection: close"]
        lines.append(f"X-Forwarded-For: {self.address}")
        lines += [f"{name}: {value}" for name, value in pairs]
        if body and not any(name.lower() == "transfer-encoding" for name, _ in pairs):
            lines.append(f"Content-Length: {len(body)}")
        return await self.send_raw("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)

    async def send_raw(self, request: bytes) -> Reply:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            try:
                writer.write(request)
                answer = await reader.read()
            finally:
                writer.close()
        head, _, body = answer.partition(b"\r\n\r\n")
        status, *lines = head.decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        sent = [line.split(": ", 1) for line in lines]
        cookies = dict(
            value.partition(";")[0].split("=", 1)
            for name, value in sent
            if name.lower() == "set-cookie"
        )
        location = next((value for name, value in sent if name.lower() == "location"), "")
        return Reply(int(status.split()[1]), headers, body, location, cookies)


class Merchant(msgspec.Struct, frozen=True):
    site: Site
    new: NewMerchant
    environment: Environment = Environment.SANDBOX

    @property
    def credentials(self) -> NewCredentials:
        sandbox = self.environment is Environment.SANDBOX
        return self.new.sandbox if sandbox else self.new.production

    def headers(
        self, method: str, target: str, body: bytes = b"", *, timestamp: int | str | None = None
    ) -> dict[str, str]:
        moment = str(int(time.time()) if timestamp is None else timestamp)
        secret = self.credentials.api_secret
        return {
            "X-Environment": self.environment,
            "X-Merchant-Key": self.credentials.merchant_key,
            "X-API-Key": self.credentials.api_key,
            "X-Timestamp": moment,
            "X-Signature": sign(secret, moment, method, target, body),
        }

    async def get(self, target: str, **changed: str | None) -> Reply:
        return await self.call("GET", target, b"", **changed)

    async def post(self, target: str, body: Any) -> Reply:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.call("POST", target, raw)

    async def post_until_served(self, target: str, body: Any) -> Reply:
        """Repeats a request while the server is overloaded (503), as merchants do."""
        while (reply := await self.post(target, body)).status == 503:
            await asyncio.sleep(float(reply.headers["retry-after"]))
        return reply

    async def call(
        self, method: str, target: str, body: bytes = b"", **changed: str | None
    ) -> Reply:
        """Sends a signed request. A header set to None, such as `X_Timestamp=None`, is omitted."""
        headers: dict[str, str | None] = {**self.headers(method, target, body)}
        headers.update({name.replace("_", "-"): value for name, value in changed.items()})
        sent = {name: value for name, value in headers.items() if value is not None}
        return await self.site.send(method, target, sent, body)


async def new_merchant(
    site: Site,
    db: Database,
    keyring: Keyring,
    status: MerchantStatus = MerchantStatus.APPROVED,
    environment: Environment = Environment.SANDBOX,
) -> Merchant:
    new = await merchants.create(
        db, keyring, name="Ada Stores", email="ada@example.com", status=status
    )
    return Merchant(site.from_new_ip(), new, environment)
