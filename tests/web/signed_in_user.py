"""Signed-in users, whose sessions are created without the sign-in pages."""

import re
from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

import msgspec
import pyotp
from playwright.async_api import BrowserContext

from manilla.people import console_people, members, second_factor, sessions
from manilla.people.roles import ConsoleRole, Realm, Role
from manilla.services import Services
from tests.support.client import Reply, Site

PASSWORD = "three quiet kobo coins"


class SignedInUser(msgspec.Struct, frozen=True):
    """A signed-in user: an HTTP client with a session cookie."""

    site: Site
    realm: Realm
    email: str
    person_id: int
    token: str

    @property
    def cookie(self) -> str:
        return f"manilla_{self.realm}"

    def headers(self) -> dict[str, str]:
        return {"Cookie": f"{self.cookie}={self.token}", "Accept": "text/html"}

    async def get(self, path: str) -> Reply:
        """Requests a page. `path` is relative to the dashboard or console, or a full path."""
        return await self.site.send("GET", self._target(path), self.headers())

    async def post(
        self,
        path: str,
        fields: Mapping[str, str] | Sequence[tuple[str, str]],
        *,
        csrf: str | None = None,
    ) -> Reply:
        """Submits a form. Adds the account page's CSRF token unless `csrf` is given."""
        token = await self.csrf() if csrf is None else csrf
        pairs = fields.items() if isinstance(fields, Mapping) else fields
        body = urlencode([*pairs, ("csrf", token)]).encode()
        headers = {**self.headers(), "Content-Type": "application/x-www-form-urlencoded"}
        return await self.site.send("POST", self._target(path), headers, body)

    async def upload(
        self,
        path: str,
        fields: Mapping[str, str],
        name: str,
        content: bytes,
        file_field: str = "file",
    ) -> Reply:
        border = "a-border-between-parts"
        given = {**fields, "csrf": await self.csrf()}
        parts = [
            f'--{border}\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{text}\r\n'
            for field, text in given.items()
        ]
        head = f'Content-Disposition: form-data; name="{file_field}"; filename="{name}"'
        parts.append(f"--{border}\r\n{head}\r\nContent-Type: text/csv\r\n\r\n")
        body = "".join(parts).encode() + content + f"\r\n--{border}--\r\n".encode()
        headers = {**self.headers(), "Content-Type": f"multipart/form-data; boundary={border}"}
        return await self.site.send("POST", self._target(path), headers, body)

    async def follow(self, reply: Reply) -> str:
        """Returns the text of the page to which a form redirects."""
        assert reply.status == 303, reply.body
        headers = self.headers()
        headers["Cookie"] += "".join(f"; {name}={text}" for name, text in reply.cookies.items())
        page = await self.site.send("GET", reply.location, headers)
        assert page.status == 200, page.body
        return page.body.decode()

    async def csrf(self) -> str:
        found = re.search(rb'name="csrf" value="([0-9a-f]+)"', (await self.get("/account")).body)
        assert found, "no form on the account page"
        return found.group(1).decode()

    async def step_up(self, services: Services) -> None:
        """Marks the session as stepped up at the current time."""
        await services.db.execute(
            "UPDATE session SET stepped_up_at = now() WHERE person_id = $1", self.person_id
        )

    async def enroll(self, services: Services) -> pyotp.TOTP:
        """Enrolls a second factor, and returns its authenticator app. No code has been used yet."""
        visitor = await sessions.find(services.db, self.realm, self.token)
        assert visitor is not None
        begun = await second_factor.begin(services.db, services.keyring, visitor)
        app = pyotp.TOTP(begun.secret)
        await second_factor.confirm(services.db, services.keyring, visitor, app.now())
        await services.db.execute(
            "UPDATE person SET totp_last_step = NULL WHERE id = $1", self.person_id
        )
        return app

    async def enter(self, context: BrowserContext) -> None:
        await context.add_cookies(
            [
                {
                    "name": self.cookie,
                    "value": self.token,
                    "domain": "127.0.0.1",
                    "path": f"/{self.realm}",
                }
            ]
        )

    def _target(self, path: str) -> str:
        return path if path.startswith(f"/{self.realm}") else f"/{self.realm}{path}"


async def member(
    services: Services, site: Site, merchant_id: int, role: Role = Role.OWNER
) -> SignedInUser:
    email = f"{role}-{merchant_id}@example.com"
    person = await members.add(
        services.db, merchant_id, email=email, name=f"The {role}", role=role, password=PASSWORD
    )
    return await _session(services, site, Realm.DASHBOARD, email, person.id, merchant_id)


async def administrator(
    services: Services, site: Site, email: str, role: ConsoleRole = ConsoleRole.ADMINISTRATOR
) -> SignedInUser:
    new = await console_people.create(
        services.db,
        services.keyring,
        email=email,
        name=f"The {role}",
        role=role,
        password=PASSWORD,
    )
    return await _session(services, site, Realm.CONSOLE, email, new.person.id, None)


async def sign_in_again(
    services: Services, user: SignedInUser, merchant_id: int | None
) -> SignedInUser:
    """Starts a new, stepped-up session for a user whose session may have expired."""
    person = user.email, user.person_id
    new = await _session(services, user.site, user.realm, *person, merchant_id)
    await new.step_up(services)
    return new


async def _session(
    services: Services,
    site: Site,
    realm: Realm,
    email: str,
    person_id: int,
    merchant_id: int | None,
) -> SignedInUser:
    async with services.db.transaction() as connection:
        session = await sessions.begin(
            connection,
            person_id,
            realm,
            merchant_id=merchant_id,
            second_factor=False,
            address="127.0.0.1",
            user_agent="tests",
        )
    return SignedInUser(site, realm, email, person_id, session.token)
