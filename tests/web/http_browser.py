"""An HTTP client with cookies, for users who have not signed in yet."""

import contextlib
import re
from collections.abc import AsyncIterator, Mapping
from typing import Self

import aiohttp
import msgspec
from yarl import URL

from tests.support.client import Site

_CSRF = re.compile(r'name="csrf" value="([0-9a-f]+)"')


class Page(msgspec.Struct, frozen=True):
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def csrf(self) -> str:
        found = _CSRF.search(self.text)
        assert found, self.text
        return found.group(1)


class HttpBrowser:
    def __init__(self, session: aiohttp.ClientSession, site: Site, root: str) -> None:
        self._session = session
        self.address = site.address
        self.root = root
        self.base_url = f"http://127.0.0.1:{site.port}"

    @classmethod
    @contextlib.asynccontextmanager
    async def of(cls, site: Site, root: str = "/dashboard") -> AsyncIterator[Self]:
        # With `unsafe`, the jar accepts cookies from an IP address.
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(cookie_jar=jar) as session:
            yield cls(session, site.from_new_ip(), root)

    def move_to(self, address: str) -> None:
        self.address = address

    async def get(self, path: str) -> Page:
        return await self._ask("GET", path)

    async def post(
        self, path: str, fields: Mapping[str, str], *, referer: str | None = None
    ) -> Page:
        """Submits a form. Adds the sign-in page's CSRF token unless the fields contain a token."""
        given = dict(fields)
        if "csrf" not in given:
            given["csrf"] = (await self.get("/sign-in")).csrf
        return await self._ask("POST", path, given, referer)

    async def sign_in(self, email: str, password: str, next_: str = "") -> Page:
        return await self.post("/sign-in", {"email": email, "password": password, "next": next_})

    def cookie(self, name: str) -> str | None:
        found = self._session.cookie_jar.filter_cookies(URL(f"{self.base_url}{self.root}/"))
        return found[name].value if name in found else None

    def give_cookie(self, name: str, value: str) -> None:
        url = URL(f"{self.base_url}{self.root}/")
        self._session.cookie_jar.update_cookies({name: value}, url)

    async def _ask(
        self,
        method: str,
        path: str,
        fields: Mapping[str, str] | None = None,
        referer: str | None = None,
    ) -> Page:
        headers = {"X-Forwarded-For": self.address, "Accept": "text/html"}
        if referer is not None:
            headers["Referer"] = f"{self.base_url}{self.root}{referer}"
        async with self._session.request(
            method,
            f"{self.base_url}{self.root}{path}",
            data=fields,
            headers=headers,
            allow_redirects=False,
        ) as reply:
            return Page(reply.status, reply.headers, await reply.text())
