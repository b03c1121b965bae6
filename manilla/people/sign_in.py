"""Sign-in: checks the password first, then the second factor if the user has one."""

from datetime import UTC, datetime

import msgspec

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Connection, Database
from manilla.kit.errors import Refusal
from manilla.mail import outbox
from manilla.mail.kinds import MailKind
from manilla.people import (
    devices,
    links,
    members,
    passwords,
    persons,
    queries,
    second_factor,
    security_log,
    sessions,
    throttle,
)
from manilla.people.company import providers
from manilla.people.queries import PersonCredentials
from manilla.people.roles import Realm
from manilla.people.second_factor import CodeRefused
from manilla.people.security_log import SecurityEvent, SecurityOutcome, SecuritySubject
from manilla.people.throttle import TooManyAttempts


class SignInRefused(Refusal):
    """A failed sign-in. The error does not reveal whether the account exists."""

    status, code = 401, "SIGN_IN_REFUSED"
    message = "The email address or password is wrong."

    outcome = SecurityOutcome.WRONG_PASSWORD  # the reason for the failure, which is only logged


class SignedIn(msgspec.Struct, frozen=True):
    session: sessions.NewSession


class NeedsCode(msgspec.Struct, frozen=True):
    """The password is correct. The client must send the password again together with a code."""


class SignInAttempt(msgspec.Struct, frozen=True):
    realm: Realm
    email: str
    password: str
    code: str | None
    address: str
    user_agent: str
    person: PersonCredentials | None  # the user with this email address, or None
    device: str | None  # the id of the user's known browser, or None

    @property
    def who(self) -> SecuritySubject | None:
        return SecuritySubject(self.person.id, self.person.email) if self.person else None


async def sign_in(
    db: Database,
    keyring: Keyring,
    realm: Realm,
    email: str,
    password: str,
    code: str | None,
    address: str,
    user_agent: str,
    *,
    device_cookie: str = "",
) -> SignedIn | NeedsCode:
    normal = persons.normal_email(email)
    person = await queries.credentials_by_email(db, realm, normal) if normal else None
    device = devices.read(keyring, realm, person.id, device_cookie) if person else None
    attempt = SignInAttempt(
        realm, normal or email, password, code, address, user_agent, person, device
    )
    try:
        entered = await _try(db, keyring, attempt)
    except (SignInRefused, CodeRefused, TooManyAttempts) as refusal:
        await security_log.record_failure(
            db,
            SecurityEvent.SIGN_IN,
            _outcome(refusal),
            realm,
            attempt.who,
            is_repeated=isinstance(refusal, TooManyAttempts) and not refusal.is_first,
        )
        raise
    outcome = SecurityOutcome.DONE if isinstance(entered, SignedIn) else SecurityOutcome.CODE_NEEDED
    security_log.report(SecurityEvent.SIGN_IN, outcome, realm, attempt.who)
    return entered


async def _try(db: Database, keyring: Keyring, attempt: SignInAttempt) -> SignedIn | NeedsCode:
    """Signs in a user. The attempt is counted before the password is checked: see `throttle`."""
    buckets = throttle.signing_in(attempt.realm, attempt.email, attempt.address, attempt.device)
    try:
        await throttle.take(db, buckets)
    except TooManyAttempts:
        if not attempt.code:
            raise
        return await _pass_the_limit(db, keyring, attempt)
    person, new_hash = await _check_password(attempt)
    if person.has_totp and not attempt.code:
        await throttle.give_back(db, buckets)
        return NeedsCode()
    if person.has_totp:
        await _check_code(db, keyring, attempt, person)
    entered = await _enter(db, attempt, person, new_hash)
    await throttle.give_back(db, buckets)
    return entered


async def _pass_the_limit(db: Database, keyring: Keyring, attempt: SignInAttempt) -> SignedIn:
    """Signs in with a correct password and code, although the normal limit is exceeded.

    All failures have the same text, so that an attacker cannot guess password and code separately.
    """
    buckets = throttle.past_the_limit(attempt.realm, attempt.address)
    await throttle.take(db, buckets)
    try:
        person, new_hash = await _check_password(attempt)
        if not person.has_totp:
            raise _refused(SecurityOutcome.LOCKED_OUT)
        await _check_code(db, keyring, attempt, person)
    except (SignInRefused, CodeRefused, TooManyAttempts) as refusal:
        text = "The email address, password or code is wrong."
        raise _refused(_outcome(refusal), text) from None
    entered = await _enter(db, attempt, person, new_hash)
    await throttle.give_back(db, buckets)
    return entered


async def _check_password(attempt: SignInAttempt) -> tuple[PersonCredentials, str | None]:
    """Checks the password. Returns the user, and a new hash if the stored hash is outdated."""
    person = attempt.person
    verdict = await passwords.verify(person.password_hash if person else None, attempt.password)
    if person is None:
        raise _refused(SecurityOutcome.UNKNOWN_ACCOUNT)
    if not verdict.is_right:
        raise _refused(SecurityOutcome.WRONG_PASSWORD)
    if person.status != "active":
        raise _refused(SecurityOutcome.DISABLED)
    new_hash = await passwords.hash_of(attempt.password) if verdict.is_outdated else None
    return person, new_hash


async def _check_code(
    db: Database, keyring: Keyring, attempt: SignInAttempt, person: PersonCredentials
) -> None:
    """Checks the authenticator or recovery code.

    A known device has a separate limit, which others who know the password cannot use up.
    """
    buckets = throttle.giving_code(person.id) if attempt.device is None else ()
    await throttle.take(db, buckets)
    await second_factor.accept(db, keyring, person, attempt.code or "")
    await throttle.give_back(db, buckets)


async def _enter(
    db: Database, attempt: SignInAttempt, person: PersonCredentials, new_hash: str | None
) -> SignedIn:
    async with db.transaction() as connection:
        return SignedIn(await _begin_session(connection, attempt, person, new_hash))


async def _begin_session(
    connection: Connection, attempt: SignInAttempt, person: PersonCredentials, new_hash: str | None
) -> sessions.NewSession:
    assert person.password_hash is not None
    # The password may have been reset after it was verified, so `enter` compares it again.
    if not await queries.enter(
        connection, person.id, person.password_hash, new_hash, has_totp=person.has_totp
    ):
        raise SignInRefused
    if attempt.device is None:
        await _report_new_device(connection, attempt, person.id)
    memberships = await members.merchants_of(connection, person.id)
    merchant_id = memberships[0].merchant_id if memberships else None
    session = await sessions.begin(
        connection,
        person.id,
        attempt.realm,
        merchant_id=merchant_id,
        second_factor=person.has_totp,
        address=attempt.address,
        user_agent=attempt.user_agent,
    )
    await _record(connection, attempt, person, merchant_id)
    return session


async def _record(
    connection: Connection,
    attempt: SignInAttempt,
    person: PersonCredentials,
    merchant_id: int | None,
) -> None:
    """Records the sign-in, and reports it if company sign-in is required here."""
    who = SecuritySubject(person.id, person.email)
    if attempt.realm is Realm.CONSOLE:
        merchant_id = providers.CONSOLE
    if merchant_id is not None and await providers.report_password(
        connection, merchant_id, person.id, person.email
    ):
        security_log.report(SecurityEvent.SIGN_IN, SecurityOutcome.BREAK_GLASS, attempt.realm, who)
    await security_log.record_sign_in(connection, attempt.realm, who)


async def _report_new_device(
    connection: Connection, attempt: SignInAttempt, person_id: int
) -> None:
    facts = {
        "at": f"{datetime.now(UTC):%d %B %Y, %H:%M} UTC",
        "browser": attempt.user_agent,
        "address": attempt.address,
    }
    path = links.account(attempt.realm)
    await outbox.put(connection, MailKind.NEW_DEVICE, facts, path=path, person_id=person_id)


def _refused(outcome: SecurityOutcome, text: str | None = None) -> SignInRefused:
    refusal = SignInRefused(text)
    refusal.outcome = outcome
    return refusal


def _outcome(refusal: Refusal) -> SecurityOutcome:
    if isinstance(refusal, SignInRefused):
        return refusal.outcome
    return (
        SecurityOutcome.WRONG_CODE
        if isinstance(refusal, CodeRefused)
        else SecurityOutcome.LOCKED_OUT
    )
