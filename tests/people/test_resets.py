"""A password reset link can be used once within an hour, and ends all sessions of the user."""

import asyncio
from datetime import timedelta

import pytest

from manilla.kit.database.connections import Database
from manilla.people import passwords, persons, resets, tokens
from manilla.people.passwords import WeakPassword
from manilla.people.resets import BadReset
from manilla.people.roles import Realm
from manilla.people.sign_in import NeedsCode, SignInRefused
from manilla.people.throttle import TooManyAttempts
from tests.people.accounts import PASSWORD, Accounts, new_address, new_email

NEW = "another long phrase"


async def test_a_link_sets_the_password_once_and_ends_all_sessions(
    db: Database, accounts: Accounts
) -> None:
    owner = await accounts.owner()
    token = await resets.begin(db, accounts.keyring, owner.visitor.person_id)
    assert (await resets.look_at(db, Realm.DASHBOARD, token)).email == owner.email
    with pytest.raises(WeakPassword):
        await resets.use(db, Realm.DASHBOARD, token, "short")
    assert await accounts.is_signed_in(owner.token)
    answers = await asyncio.gather(
        *(resets.use(db, Realm.DASHBOARD, token, NEW) for _ in range(3)), return_exceptions=True
    )
    assert sorted(type(each).__name__ for each in answers) == ["BadReset", "BadReset", "Person"]
    assert not await accounts.is_signed_in(owner.token)
    with pytest.raises(SignInRefused):
        await accounts.try_sign_in(owner.email, PASSWORD)
    await accounts.sign_in(owner.email, NEW)
    with pytest.raises(BadReset):
        await resets.use(db, Realm.DASHBOARD, token, PASSWORD)


async def test_the_second_factor_survives_a_reset(db: Database, accounts: Accounts) -> None:
    owner = await accounts.owner()
    await accounts.turn_on_totp(owner.visitor)
    token = await resets.begin(db, accounts.keyring, owner.visitor.person_id)
    await resets.use(db, Realm.DASHBOARD, token, NEW)
    assert isinstance(await accounts.try_sign_in(owner.email, NEW), NeedsCode)


async def test_an_expired_replaced_or_superseded_link_is_invalid(
    db: Database, accounts: Accounts
) -> None:
    owner = await accounts.owner()
    person_id = owner.visitor.person_id
    replaced = await resets.begin(db, accounts.keyring, person_id)
    overtaken = await resets.begin(db, accounts.keyring, person_id)
    await passwords.change(db, owner.visitor, PASSWORD, NEW)
    expired = await resets.begin(db, accounts.keyring, person_id)
    await db.execute(
        "UPDATE password_reset SET expires_at = expires_at - $2::interval WHERE token_hash = $1",
        tokens.digest(expired),
        timedelta(hours=1),
    )
    for token in (replaced, overtaken, expired, "", "made up"):
        with pytest.raises(BadReset):
            await resets.use(db, Realm.DASHBOARD, token, "yet another phrase")
    of_the_other_realm = await resets.begin(db, accounts.keyring, person_id)
    with pytest.raises(BadReset):
        await resets.use(db, Realm.CONSOLE, of_the_other_realm, "yet another phrase")
    await persons.disable(db, person_id)
    with pytest.raises(BadReset):
        await resets.use(db, Realm.DASHBOARD, of_the_other_realm, "yet another phrase")


async def test_a_reset_request_creates_a_link_for_known_emails_and_is_rate_limited(
    db: Database, accounts: Accounts
) -> None:
    owner = await accounts.owner()
    for email, is_known in ((owner.email.upper(), True), (new_email(), False), ("x\x00", False)):
        for _ in range(3):
            await resets.count(db, Realm.DASHBOARD, email, new_address())
            await resets.ask(db, accounts.keyring, Realm.DASHBOARD, email)
        sent = "SELECT count(*) FROM mail WHERE kind = 'reset' AND recipient = lower($1)"
        assert await db.number(sent, email.replace("\0", "")) == (3 if is_known else 0)
        with pytest.raises(TooManyAttempts):
            await resets.count(db, Realm.DASHBOARD, email, new_address())
    address = new_address()
    for _ in range(10):
        await resets.count(db, Realm.DASHBOARD, new_email(), address)
    with pytest.raises(TooManyAttempts):
        await resets.count(db, Realm.DASHBOARD, new_email(), address)
