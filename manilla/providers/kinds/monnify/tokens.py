"""Monnify's access tokens. A token is valid for about an hour and is renewed before it expires."""

import asyncio
import base64
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from manilla.kit import time_limits
from manilla.providers import reading
from manilla.providers.health import Rail
from manilla.providers.kinds.monnify import answers
from manilla.providers.port import Answer, Done, Unknown
from manilla.providers.reading import Malformed
from manilla.providers.replies import Reply
from manilla.providers.wire import Content, ProviderApi, Wire

Value = TypeVar("Value")

LOGIN = "/api/v1/auth/login"
RENEW_AHEAD_SECONDS = 120.0  # longer than any call, so that no token expires during a call
VALID_SECONDS_MAX = 24 * 3600
TOKEN_LENGTH_MAX = 8192


class Token(msgspec.Struct, frozen=True):
    text: str
    renew_at: float  # time on the monotonic clock
    ends_at: float


class Tokens:
    """An account's current access token. Only one token request runs at a time."""

    def __init__(self, api: ProviderApi, api_key: str, secret_key: str) -> None:
        pair = base64.b64encode(f"{api_key}:{secret_key}".encode()).decode()
        self._api = api
        self._headers = {"Authorization": f"Basic {pair}"}
        self._renewing = asyncio.Lock()
        self._token: Token | None = None
        self._requests = 0
        self._latest: Answer[Token] = Unknown("no token was requested yet")

    async def current(self, rail: Rail) -> Answer[str]:
        """Returns a token that is valid for longer than a call takes, or an error."""
        token = self._token
        if token is not None and time.monotonic() < token.renew_at:
            return Done(token.text)
        requests = self._requests
        async with self._renewing:
            # Concurrent calls wait for the same token request and use its result.
            if requests == self._requests:
                await self._renew(rail)
            latest = self._latest
        return Done(latest.value.text) if isinstance(latest, Done) else self._left() or latest

    async def _renew(self, rail: Rail) -> None:
        self._latest = await self._request(rail)
        self._requests += 1
        if isinstance(self._latest, Done):
            self._token = self._latest.value

    def discard(self, text: str) -> None:
        """Removes a token that the provider rejected, unless the token has been renewed since."""
        if self._token is not None and self._token.text == text:
            self._token = None

    def _left(self) -> Done[str] | None:
        """Returns the current token if it is valid long enough for a call, otherwise None."""
        token, call_seconds = self._token, time_limits.current.provider_call_seconds
        if token is None or time.monotonic() + call_seconds >= token.ends_at:
            return None
        return Done(token.text)

    async def _request(self, rail: Rail) -> Answer[Token]:
        began = time.monotonic()
        wire = Wire(rail, self._api, self._headers)
        return await wire.post(LOGIN, None, lambda data: _token(data, began))


class TokenWire(Wire):
    """Sends each request once, with a valid access token. Without a token, sends nothing.

    If Monnify rejects the token, the next call requests a new token.
    """

    def __init__(self, rail: Rail, api: ProviderApi, tokens: Tokens) -> None:
        super().__init__(rail, api, {})
        self._tokens = tokens

    async def call(
        self,
        method: str,
        path: str,
        read: Callable[[Reply], Answer[Value]],
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
        content: Content | None = None,
    ) -> Answer[Value]:
        token = await self._tokens.current(self.rail)
        if not isinstance(token, Done):
            return token
        wire = Wire(self.rail, self.api, {"Authorization": f"Bearer {token.value}"})
        answer = await wire.call(method, path, read, body=body, query=query, content=content)
        if isinstance(answer, Unknown) and not answer.can_pass:
            self._tokens.discard(token.value)
            return msgspec.structs.replace(answer, can_pass=True)
        return answer


def _token(data: Any, began: float) -> Token:
    text = reading.field(data, "accessToken")
    is_text = isinstance(text, str) and 0 < len(text) <= TOKEN_LENGTH_MAX
    # The token is sent in a header, so it must be printable ASCII.
    if not is_text or not text.isascii() or not text.isprintable() or " " in text:
        raise Malformed("accessToken is not a token")
    seconds = min(answers.seconds(data, "expiresIn"), VALID_SECONDS_MAX)
    renew_after = seconds - min(RENEW_AHEAD_SECONDS, seconds / 2)
    return Token(text, began + renew_after, began + seconds)
