"""Users who sign in, each with a separate email and IP address."""

import contextlib
import itertools
import time
from datetime import timedelta

import msgspec
import pyotp

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.people import console_people, second_factor, sessions, sign_in, sign_up, throttle
from manilla.people.roles import ConsoleRole, Realm
from manilla.people.visitor import Visitor

PASSWORD = "a long enough phrase"
BROWSER = "Mozilla/5.0"

_numbers = itertools.count(1)


def new_email() -> str:
    return f"person-{next(_numbers)}@example.com"


def new_address() -> str:
    number = next(_numbers)
    return f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"


class Owner(msgspec.Struct, frozen=True):
    email: str
    merchant_id: int
    token: str
    visitor: Visitor


class Accounts:
    def __init__(self, db: Database, keyring: Keyring) -> None:
        self.db = db
        self.keyring = keyring

    async def owner(self, email: str | None = None) -> Owner:
        email = email or new_email()
        signed = await sign_up.sign_up(
            self.db,
            self.keyring,
            business_name="Ada Stores",
            name="Ada Obi",
            email=email,
            password=PASSWORD,
            address=new_address(),
            user_agent=BROWSER,
        )
        token = signed.session.token
        return Owner(email, signed.merchant.id, token, await self.visitor(token))

    async def administrator(self, role: ConsoleRole = ConsoleRole.ADMINISTRATOR) -> tuple[int, str]:
        email = new_email()
        new = await console_people.create(
            self.db, self.keyring, email=email, name="Bola", role=role, password=PASSWORD
        )
        return new.person.id, email

    async def try_sign_in(
        self,
        email: str,
        password: str = PASSWORD,
        code: str | None = None,
        *,
        realm: Realm = Realm.DASHBOARD,
        address: str | None = None,
        device: str = "",
    ) -> sign_in.SignedIn | sign_in.NeedsCode:
        return await sign_in.sign_in(
            self.db,
            self.keyring,
            realm,
            email,
            password,
            code,
            address or new_address(),
            BROWSER,
            device_cookie=device,
        )

    async def lock(self, email: str, realm: Realm = Realm.DASHBOARD) -> None:
        """Locks a user's sign-in with wrong passwords from many IP addresses, like an attacker."""
        with contextlib.suppress(sign_in.SignInRefused):
            await self.try_sign_in(email, "a wrong password!", realm=realm)
        await self.db.execute(
            "UPDATE rate_window SET used = $2 WHERE bucket = $1",
            throttle.signing_in(realm, email, "")[-1].name,
            throttle.PER_ACCOUNT,
        )

    async def sign_in(
        self, email: str, password: str = PASSWORD, realm: Realm = Realm.DASHBOARD
    ) -> str:
        answer = await self.try_sign_in(email, password, realm=realm)
        assert isinstance(answer, sign_in.SignedIn)
        return answer.session.token

    async def visitor(self, token: str, realm: Realm = Realm.DASHBOARD) -> Visitor:
        found = await sessions.find(self.db, realm, token)
        assert found is not None
        return found

    async def is_signed_in(self, token: str, realm: Realm = Realm.DASHBOARD) -> bool:
        return await sessions.find(self.db, realm, token) is not None

    async def turn_on_totp(self, visitor: Visitor) -> tuple[pyotp.TOTP, list[str]]:
        """Enrolls an authenticator app, and returns the app and the recovery codes.

        The test can use the app's current code again.
        """
        begun = await second_factor.begin(self.db, self.keyring, visitor)
        app = pyotp.TOTP(begun.secret)
        codes = await second_factor.confirm(self.db, self.keyring, visitor, code_of(app))
        await self.forget_steps(visitor)
        return app, codes

    async def forget_steps(self, visitor: Visitor) -> None:
        await self.db.execute(
            "UPDATE person SET totp_last_step = NULL WHERE id = $1", visitor.person_id
        )

    async def age_session(self, session_id: int, column: str, by: timedelta) -> None:
        await self.db.execute(
            f"UPDATE session SET {column} = {column} - $2::interval WHERE id = $1", session_id, by
        )


def code_of(app: pyotp.TOTP, steps_from_now: int = 0) -> str:
    return app.generate_otp(int(time.time()) // 30 + steps_from_now)
