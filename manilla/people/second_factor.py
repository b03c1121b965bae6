"""The second factor: codes from an authenticator app, and recovery codes for a lost device."""

import hashlib
import hmac
import secrets
import time

import msgspec
import pyotp

from manilla.kit.crypto import Keyring, SealedColumn
from manilla.kit.database.connections import Connection, Database
from manilla.kit.errors import Refusal
from manilla.kit.ids import ALPHABET, base32
from manilla.people import members, persons, queries, security_log, throttle
from manilla.people.queries import Person, PersonCredentials
from manilla.people.security_log import SecurityEvent, SecurityOutcome, SecuritySubject
from manilla.people.visitor import Visitor

STEP_SECONDS = 30
WINDOW_STEPS = 1  # also accept the previous and the next code, in case clocks differ
RECOVERY_CODES = 10
RECOVERY_CHARACTERS = 16  # a code has 80 random bits, so a fast hash is secure enough
_READ_AS = str.maketrans("OIL", "011", " -")


class CodeRefused(Refusal):
    status, code = 401, "CODE_REFUSED"
    message = "The code is wrong or was already used. Wait for the next code."


class StepUpNeeded(Refusal):
    status, code = 403, "STEP_UP_NEEDED"
    message = "Please confirm that it is you."


class SecondFactorIsOn(Refusal):
    status, code = 409, "SECOND_FACTOR_IS_ON"
    message = "The second factor is already on. Turn it off first."


class SecondFactorNotBegun(Refusal):
    status, code = 409, "SECOND_FACTOR_NOT_BEGUN"
    message = "The second factor setup was not started, or was restarted. Start again."


class TotpSetup(msgspec.Struct, frozen=True):
    """A new authenticator secret, which is shown once, as text and as a QR code."""

    secret: str
    uri: str


def require_step_up(visitor: Visitor) -> None:
    if not visitor.is_stepped_up:
        raise StepUpNeeded


async def begin(
    db: Database, keyring: Keyring, visitor: Visitor, *, issuer: str = "Manilla"
) -> TotpSetup:
    """Creates a secret for an authenticator app. The second factor is off until `confirm`."""
    secret = pyotp.random_base32()
    sealed = keyring.seal(secret.encode(), totp_context(visitor.person_id))
    if not await db.has_row(
        """
        UPDATE person SET totp_sealed = $2, totp_last_step = NULL, updated_at = now()
         WHERE id = $1 AND totp_confirmed_at IS NULL
        RETURNING id""",
        *(visitor.person_id, sealed),
    ):
        raise SecondFactorIsOn
    return TotpSetup(secret, pyotp.TOTP(secret).provisioning_uri(visitor.email, issuer_name=issuer))


async def confirm(db: Database, keyring: Keyring, visitor: Visitor, code: str) -> list[str]:
    """Turns on the second factor, and returns recovery codes, which are shown only once."""
    buckets = throttle.proving(visitor.person_id)
    await throttle.take(db, buckets)
    person = await queries.credentials(db, visitor.person_id)
    if person is None or person.totp_sealed is None or person.has_totp:
        raise SecondFactorNotBegun
    step = _step_of(keyring, person, code)
    if step is None:
        raise CodeRefused
    await throttle.give_back(db, buckets)
    codes, hashes = _new_recovery_codes()
    async with db.transaction() as connection:
        if not await _confirm(connection, person, step, hashes):
            raise SecondFactorNotBegun
        await connection.execute(
            "UPDATE session SET second_factor = true WHERE id = $1", visitor.session_id
        )
        if visitor.is_by_company:
            await members.delay_approvals(connection, person.id)
        person_now = await persons.get(connection, person.id)
        await persons.record(connection, "person.second_factor_on", person_now)
    _report(person_now, SecurityOutcome.TURNED_ON)
    return codes


async def _confirm(
    connection: Connection, person: PersonCredentials, step: int, recovery: list[bytes]
) -> bool:
    """Turns on the second factor. Returns False if the secret has changed in the meantime."""
    return await connection.has_row(
        """
        UPDATE person SET totp_confirmed_at = now(), totp_last_step = $3, recovery_hashes = $4,
                          updated_at = now()
         WHERE id = $1 AND totp_sealed = $2 AND totp_confirmed_at IS NULL
        RETURNING id""",
        *(person.id, person.totp_sealed, step, recovery),
    )


async def renew_recovery(db: Database, visitor: Visitor) -> list[str]:
    """Returns new recovery codes, which are shown only once. The old codes stop working."""
    require_step_up(visitor)
    codes, hashes = _new_recovery_codes()
    async with db.transaction() as connection:
        if not await connection.has_row(
            """
            UPDATE person SET recovery_hashes = $2, updated_at = now()
             WHERE id = $1 AND totp_confirmed_at IS NOT NULL
            RETURNING id""",
            *(visitor.person_id, hashes),
        ):
            raise SecondFactorNotBegun
        person = await persons.get(connection, visitor.person_id)
        await persons.record(connection, "person.recovery_codes", person)
    _report(person, SecurityOutcome.CODES_RENEWED)
    return codes


async def turn_off(db: Database, visitor: Visitor) -> None:
    require_step_up(visitor)
    await remove(db, visitor.person_id)


async def remove(db: Database, person_id: int) -> None:
    """Turns off the second factor, and ends all of the user's sessions."""
    async with db.transaction() as connection:
        # Lock the user's row, so that a concurrent sign-in cannot keep its session.
        await queries.lock_person(connection, person_id)
        person = await persons.get(connection, person_id)
        await connection.execute(
            """
            UPDATE person SET totp_sealed = NULL, totp_confirmed_at = NULL, totp_last_step = NULL,
                              recovery_hashes = '{}', updated_at = now()
             WHERE id = $1""",
            person_id,
        )
        if person.has_totp:
            ended = await queries.end_sessions(connection, person_id)
            await persons.record(
                connection, "person.second_factor_off", person, sessions_ended=ended
            )
    if person.has_totp:
        _report(person, SecurityOutcome.TURNED_OFF)


def _report(person: Person, outcome: SecurityOutcome) -> None:
    who = SecuritySubject(person.id, person.email)
    security_log.report(SecurityEvent.SECOND_FACTOR, outcome, person.realm, who)


async def accept(db: Database, keyring: Keyring, person: PersonCredentials, code: str) -> None:
    """Accepts an authenticator or recovery code once. The caller must limit the attempts."""
    step = _step_of(keyring, person, code)
    if step is not None:
        is_used_now = await _use_step(db, person.id, step)
    else:
        is_used_now = await _use_recovery(db, person.id, _recovery_hash(code))
    if not is_used_now:
        raise CodeRefused


async def _use_step(db: Database, person_id: int, step: int) -> bool:
    """Marks an authenticator code as used. Returns False if it was already used."""
    return await db.has_row(
        """
        UPDATE person SET totp_last_step = $2
         WHERE id = $1 AND coalesce(totp_last_step, -1) < $2
        RETURNING id""",
        person_id,
        step,
    )


async def _use_recovery(db: Database, person_id: int, code_hash: bytes) -> bool:
    return await db.has_row(
        """
        UPDATE person SET recovery_hashes = array_remove(recovery_hashes, $2)
         WHERE id = $1 AND $2 = ANY (recovery_hashes)
        RETURNING id""",
        person_id,
        code_hash,
    )


def totp_context(person_id: int) -> str:
    """Returns the associated data that binds an encrypted secret to its user."""
    return f"person:{person_id}:totp"


SEALED = SealedColumn("person", "totp_sealed", ("id",), lambda row: totp_context(row["id"]))


def _step_of(keyring: Keyring, person: PersonCredentials, code: str) -> int | None:
    """Returns an authenticator code's time step, or None if the code is not valid."""
    assert person.totp_sealed is not None
    secret = keyring.open(person.totp_sealed, totp_context(person.id)).decode()
    given = "".join(code[:20].split()).encode("utf-8", "replace")
    now = int(time.time()) // STEP_SECONDS
    used = -1 if person.totp_last_step is None else person.totp_last_step
    for step in range(now - WINDOW_STEPS, now + WINDOW_STEPS + 1):
        expected = pyotp.TOTP(secret).generate_otp(step).encode()
        if hmac.compare_digest(expected, given) and step > used:
            return step
    return None


def _new_recovery_codes() -> tuple[list[str], list[bytes]]:
    codes = [_new_recovery_code() for _ in range(RECOVERY_CODES)]
    return codes, [_recovery_hash(code) for code in codes]


def _new_recovery_code() -> str:
    text = base32(secrets.randbits(5 * RECOVERY_CHARACTERS), RECOVERY_CHARACTERS)
    return "-".join(text[start : start + 4] for start in range(0, RECOVERY_CHARACTERS, 4))


def _recovery_hash(code: str) -> bytes:
    """Hashes a recovery code, ignoring case and separators. O, I and L count as digits."""
    text = code[:40].upper().translate(_READ_AS)
    plain = "".join(character for character in text if character in ALPHABET)
    return hashlib.sha256(plain.encode()).digest()
