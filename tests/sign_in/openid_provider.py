"""A certified OpenID Connect provider as a separate process, and a user's way through it."""

import asyncio
import contextlib
import html
import re
import secrets
import subprocess
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any, Self
from urllib.parse import urljoin

import aiohttp
import msgspec
import pytest

from tests.contract.runners import OFFLINE
from tests.samples.languages import skip_without
from tests.support.client import Site
from tests.support.instance import free_port

FOLDER = Path(__file__).parent / "provider"
FILES = ("package.json", "package-lock.json", ".npmrc", "provider.mjs")
INSTALL_SECONDS = 300
_FORM = re.compile(r'<form[^>]*action="([^"]+)"')
_HIDDEN = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)"')


class OpenIdProvider(msgspec.Struct, frozen=True):
    issuer: str

    async def control(self, **wanted: Any) -> dict[str, Any]:
        async with (
            aiohttp.ClientSession() as session,
            session.post(self.issuer + "/control", json=wanted) as reply,
        ):
            found: dict[str, Any] = await reply.json()
            return found

    async def user(self, *groups: str, **claims: Any) -> str:
        """Creates an account, and returns its id, which is the subject of its tokens."""
        subject = f"user-{secrets.token_hex(4)}"
        known = {"email": f"{subject}@company.example", "name": "Ada Company", **claims}
        await self.control(accounts={subject: {**known, "groups": list(groups)}})
        return subject

    async def register(self, base: str, root: str, **metadata: Any) -> dict[str, Any]:
        """Registers a client as a provider's administrator does. `base` has the sign-in's key."""
        wanted = {
            "redirect_uris": [base + "/callback"],
            "backchannel_logout_uri": base + "/sign-out",
            "backchannel_logout_session_required": True,
            "post_logout_redirect_uris": [root + "/sign-in"],
            "scope": "openid profile email groups",
            **metadata,
        }
        async with (
            aiohttp.ClientSession() as session,
            session.post(self.issuer + "/reg", json=wanted) as reply,
        ):
            assert reply.status == 201, await reply.text()
            found: dict[str, Any] = await reply.json()
            return found


@contextlib.asynccontextmanager
async def running(folder: Path) -> AsyncIterator[OpenIdProvider]:
    """Installs and starts the provider. Skips the tests if that is not possible here."""
    for program in ("node", "npm"):
        skip_without(program)
    for name in FILES:
        (folder / name).write_bytes((FOLDER / name).read_bytes())
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"]
    done = await asyncio.to_thread(
        partial(
            subprocess.run,
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=INSTALL_SECONDS,
        )
    )
    if done.returncode and any(code in done.stderr for code in OFFLINE):
        pytest.skip("npm cannot reach its registry to install the provider")
    assert done.returncode == 0, done.stderr
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *("node", "provider.mjs", str(port)), cwd=folder, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        while (line := await process.stdout.readline()) != b"ready\n":
            assert line, "the provider has ended"
        yield OpenIdProvider(f"http://127.0.0.1:{port}")
    finally:
        process.kill()
        await process.wait()


class CompanyBrowser:
    """A browser without scripts, which has cookies of Manilla and of the provider."""

    def __init__(self, session: aiohttp.ClientSession, site: Site) -> None:
        self._session = session
        self.address = site.from_new_ip().address
        self.base = f"http://127.0.0.1:{site.port}"

    @classmethod
    @contextlib.asynccontextmanager
    async def of(cls, site: Site) -> AsyncIterator[Self]:
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(cookie_jar=jar) as session:
            yield cls(session, site)

    async def ask(
        self, method: str, url: str, fields: dict[str, str] | None = None, referer: str = ""
    ) -> tuple[int, str, str]:
        """Returns status, text and the target of a redirect. Does not follow redirects."""
        headers = {"X-Forwarded-For": self.address, "Accept": "text/html"}
        headers |= {"Referer": self.base + referer} if referer else {}
        target = urljoin(self.base, url)
        async with self._session.request(
            method, target, data=fields, headers=headers, allow_redirects=False
        ) as reply:
            location = reply.headers.get("Location", "")
            return reply.status, await reply.text(), urljoin(target, location) if location else ""

    async def get(self, url: str) -> tuple[int, str, str]:
        return await self.ask("GET", url)

    async def post(self, url: str, fields: dict[str, str], page: str) -> tuple[int, str, str]:
        """Submits a form of `page`, which has the CSRF token."""
        _, text, _ = await self.get(page)
        token = dict(_HIDDEN.findall(text))["csrf"]
        return await self.ask("POST", url, {**fields, "csrf": token}, page)

    async def at_provider(self, url: str, subject: str) -> str:
        """Signs in at the provider, and returns the URL with which it leads back to Manilla."""
        while not url.startswith(self.base):
            status, text, url = await self.get(url)
            if status == 200:
                fields = dict(_HIDDEN.findall(text)) | {"login": subject, "password": "any"}
                form = html.unescape(_FORM.findall(text)[0])
                _, text, url = await self.ask("POST", form, fields)
            assert url, text
        return url

    async def start(self, link: str) -> str:
        """Opens a sign-in link, and returns the provider's URL to which it leads."""
        status, text, url = await self.get(link)
        if status == 303:
            return url
        found = re.search(r'<a class="btn btn-primary[^"]*" href="([^"]+)"', text)
        assert found, text
        return html.unescape(found[1])

    async def sign_in(self, link: str, subject: str) -> tuple[int, str, str]:
        return await self.get(await self.at_provider(await self.start(link), subject))

    def cookie(self, name: str) -> str:
        [found] = [each for each in self._session.cookie_jar if each.key == name]
        return found.value
