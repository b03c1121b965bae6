"""A session ends when it is idle, too old or revoked. Important actions require a step-up."""

from datetime import timedelta

import pytest

from manilla.kit.database.connections import Database
from manilla.people import persons, queries, second_factor, sessions
from manilla.people.passwords import WrongPassword
from manilla.people.roles import Realm
from manilla.people.second_factor import CodeRefused, StepUpNeeded
from manilla.people.throttle import TooManyAttempts
from tests.people.accounts import BROWSER, PASSWORD, Accounts, code_of

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("realm", "column", "limit"),
    [
        (Realm.DASHBOARD, "seen_at", timedelta(hours=12)),
        (Realm.DASHBOARD, "expires_at", timedelta(days=7)),
        (Realm.CONSOLE, "seen_at", timedelta(hours=1)),
        (Realm.CONSOLE, "expires_at", timedelta(hours=12)),
    ],
)
async def test_a_session_expires_when_idle_or_old(
    accounts: Accounts, realm: Realm, column: str, limit: timedelta
) -> None:
    if realm is Realm.CONSOLE:
        _, email = await accounts.administrator()
    else:
        email = (await accounts.owner()).email
    token = await accounts.sign_in(email, realm=realm)
    visitor = await accounts.visitor(token, realm)
    await accounts.age_session(visitor.session_id, column, limit - timedelta(minutes=1))
    assert visitor.session_id in {
        each.id for each in await sessions.list_of(accounts.db, visitor.person_id)
    }
    if column == "seen_at":
        # Each request restarts the session's idle timeout.
        assert await accounts.is_signed_in(token, realm)
        await accounts.age_session(visitor.session_id, column, limit - timedelta(minutes=1))
    assert await accounts.is_signed_in(token, realm)
    await accounts.age_session(visitor.session_id, column, limit)
    assert not await accounts.is_signed_in(token, realm)
    assert visitor.session_id not in {
        each.id for each in await sessions.list_of(accounts.db, visitor.person_id)
    }


async def test_last_activity_is_written_at_most_once_a_minute(
    db: Database, accounts: Accounts
) -> None:
    owner = await accounts.owner()
    seen = "SELECT seen_at FROM session WHERE id = $1"
    first = await db.value(seen, owner.visitor.session_id)
    await accounts.visitor(owner.token)
    assert await db.value(seen, owner.visitor.session_id) == first
    await accounts.age_session(owner.visitor.session_id, "seen_at", timedelta(seconds=61))
    await accounts.visitor(owner.token)
    assert await db.value(seen, owner.visitor.session_id) > first - 61 * SECOND


async def test_an_invalid_token_finds_no_session(accounts: Accounts) -> None:
    for token in ("", "x", "x" * 100_000, "\x00", "\ud800"):
        assert not await accounts.is_signed_in(token)


async def test_sessions_are_listed_and_revoked_one_by_one_or_all_others(
    db: Database, accounts: Accounts
) -> None:
    owner, stranger = await accounts.owner(), await accounts.owner()
    others = [await accounts.sign_in(owner.email) for _ in range(3)]
    listed = await sessions.list_of(db, owner.visitor.person_id)
    assert len(listed) == 4
    assert {each.user_agent for each in listed} == {BROWSER}
    first = await accounts.visitor(others[0])
    with pytest.raises(sessions.SessionNotFound):
        await sessions.revoke(db, stranger.visitor.person_id, first.session_id)
    await sessions.revoke(db, owner.visitor.person_id, first.session_id)
    assert [await accounts.is_signed_in(token) for token in others] == [False, True, True]
    ended = await sessions.revoke_all_but(db, owner.visitor.person_id, owner.visitor.session_id)
    assert ended == 2
    assert await accounts.is_signed_in(owner.token)
    await sessions.end(db, Realm.CONSOLE, owner.token)
    assert await accounts.is_signed_in(owner.token)
    await sessions.end(db, Realm.DASHBOARD, owner.token)
    assert not await accounts.is_signed_in(owner.token)
    assert await accounts.is_signed_in(stranger.token)


async def test_disabling_a_user_ends_their_sessions_immediately(
    db: Database, accounts: Accounts
) -> None:
    owner = await accounts.owner()
    await persons.disable(db, owner.visitor.person_id)
    assert not await accounts.is_signed_in(owner.token)
    await persons.enable(db, owner.visitor.person_id)
    assert not await accounts.is_signed_in(owner.token)
    await accounts.sign_in(owner.email)


async def test_a_user_keeps_fifty_sessions_and_the_oldest_is_ended(
    db: Database, accounts: Accounts
) -> None:
    owner = await accounts.owner()
    async with db.transaction() as connection:
        for _ in range(50):
            await sessions.begin(
                connection,
                owner.visitor.person_id,
                Realm.DASHBOARD,
                merchant_id=None,
                second_factor=False,
                address="10.0.0.1",
                user_agent="\x00" + "x" * 5000,
            )
    listed = await sessions.list_of(db, owner.visitor.person_id)
    assert len(listed) == 50
    assert {len(each.user_agent) for each in listed} == {300}
    assert not await accounts.is_signed_in(owner.token)


async def test_step_up_by_password_lasts_ten_minutes(db: Database, accounts: Accounts) -> None:
    owner = await accounts.owner()
    assert not owner.visitor.is_stepped_up
    with pytest.raises(StepUpNeeded):
        second_factor.require_step_up(owner.visitor)
    with pytest.raises(WrongPassword):
        await sessions.step_up(db, accounts.keyring, owner.visitor, password="not this one")
    await sessions.step_up(db, accounts.keyring, owner.visitor, password=PASSWORD)
    visitor = await accounts.visitor(owner.token)
    second_factor.require_step_up(visitor)
    await accounts.age_session(visitor.session_id, "stepped_up_at", timedelta(minutes=10))
    assert not (await accounts.visitor(owner.token)).is_stepped_up
    other = await accounts.visitor(await accounts.sign_in(owner.email))
    assert not other.is_stepped_up


async def test_step_up_uses_the_second_factor_if_enrolled(db: Database, accounts: Accounts) -> None:
    owner = await accounts.owner()
    app, _ = await accounts.turn_on_totp(owner.visitor)
    with pytest.raises(CodeRefused):
        await sessions.step_up(db, accounts.keyring, owner.visitor, password=PASSWORD)
    await sessions.step_up(db, accounts.keyring, owner.visitor, code=code_of(app))
    assert (await accounts.visitor(owner.token)).is_stepped_up


async def test_step_up_attempts_are_limited(db: Database, accounts: Accounts) -> None:
    owner = await accounts.owner()
    for _ in range(10):
        with pytest.raises(WrongPassword):
            await sessions.step_up(db, accounts.keyring, owner.visitor, password="not this one")
    with pytest.raises(TooManyAttempts):
        await sessions.step_up(db, accounts.keyring, owner.visitor, password=PASSWORD)
    # An attacker with a stolen session cannot prevent the owner from signing in.
    await accounts.sign_in(owner.email)


async def test_long_expired_sessions_are_deleted(db: Database, accounts: Accounts) -> None:
    owner = await accounts.owner()
    other = await accounts.sign_in(owner.email)
    session_id = owner.visitor.session_id
    await accounts.age_session(session_id, "expires_at", timedelta(days=8))
    await queries.delete_ended(db, timedelta(days=30))
    assert await db.value("SELECT count(*) FROM session WHERE id = $1", session_id) == 0
    assert await accounts.is_signed_in(other)
