"""Passwords: which passwords are rejected, and how they are stored and changed."""

import asyncio

import argon2
import pytest

from manilla.kit.database.connections import Database
from manilla.people import passwords, queries
from manilla.people.passwords import WeakPassword, WrongPassword
from tests.people.accounts import PASSWORD, Accounts
from tests.support.waiting import until

WEAK = [
    "elevenchars",
    "x y z " * 50,
    "Password1234",
    "111111111111",
    "121212121212",
    "adaeze.obi@example.com",
    "Adaeze Nkem Obi",
    "adaezenkem.obi",
    "123qweasdzxc",
    "CartoonNetwork",
]


@pytest.mark.parametrize("password", WEAK)
def test_a_weak_password_is_rejected(password: str) -> None:
    email = "adaezenkem.obi@example.com" if "@" not in password else password
    with pytest.raises(WeakPassword):
        passwords.check(password, email=email, name="Adaeze Nkem Obi")


def test_a_long_phrase_in_any_script_is_accepted() -> None:
    for password in (PASSWORD, "ọ̀rọ̀ aṣínà mi gùn", "密码密码一二三四五六七八", "x" * 8 + "yzuvw!"):
        passwords.check(password, email="ada@example.com", name="Ada")


def test_the_3000_most_common_passwords_of_the_minimum_length_are_known() -> None:
    assert len(passwords.common()) >= 3000
    assert min(map(len, passwords.common())) == passwords.LENGTH_MIN


async def test_a_password_is_never_compared_only_in_part() -> None:
    longest = "a long phrase " * 18 + "1234"
    assert len(longest) == passwords.LENGTH_MAX
    kept = await passwords.hash_of(longest)
    assert (await passwords.verify(kept, longest)).is_right
    assert not (await passwords.verify(kept, longest + "5")).is_right


@pytest.mark.usefixtures("production_hasher")
async def test_a_password_is_stored_as_an_argon2id_hash() -> None:
    kept = await passwords.hash_of(PASSWORD)
    assert kept.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert (await passwords.verify(kept, PASSWORD)).is_right
    for wrong in ("", PASSWORD + " ", PASSWORD.upper(), "\ud800", "\x00"):
        assert not (await passwords.verify(kept, wrong)).is_right
    assert not (await passwords.verify(None, PASSWORD)).is_right


def test_an_unknown_email_takes_as_long_as_a_wrong_password() -> None:
    hasher = argon2.PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)
    assert not hasher.check_needs_rehash(passwords.NOBODYS)
    # Verifying against a valid hash takes the full time, but an invalid hash fails immediately.
    with pytest.raises(argon2.exceptions.VerifyMismatchError):
        hasher.verify(passwords.NOBODYS, PASSWORD)


async def test_a_password_matches_in_every_unicode_normalization() -> None:
    kept = await passwords.hash_of("caf\u00e9 caf\u00e9 caf\u00e9")
    assert (await passwords.verify(kept, "cafe\u0301 cafe\u0301 cafe\u0301")).is_right


@pytest.mark.usefixtures("production_hasher")
async def test_a_hash_with_an_older_cost_is_renewed_at_sign_in(
    db: Database, accounts: Accounts
) -> None:
    owner = await accounts.owner()
    old = argon2.PasswordHasher(time_cost=1, memory_cost=8 * 1024, parallelism=1).hash(PASSWORD)
    person_id = owner.visitor.person_id
    await db.execute("UPDATE person SET password_hash = $2 WHERE id = $1", person_id, old)
    await accounts.sign_in(owner.email)
    kept = await db.value("SELECT password_hash FROM person WHERE id = $1", person_id)
    assert kept.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    await accounts.sign_in(owner.email)


async def test_changing_the_password_needs_the_old_one_and_ends_the_other_sessions(
    db: Database, accounts: Accounts
) -> None:
    owner = await accounts.owner()
    other = await accounts.sign_in(owner.email)
    with pytest.raises(WrongPassword):
        await passwords.change(db, owner.visitor, "not the old one", "another long phrase")
    assert await accounts.is_signed_in(other)
    await passwords.change(db, owner.visitor, PASSWORD, "another long phrase")
    assert (await accounts.is_signed_in(owner.token), await accounts.is_signed_in(other)) == (
        True,
        False,
    )
    await accounts.sign_in(owner.email, "another long phrase")


async def test_a_change_does_not_replace_a_password_that_was_reset_in_the_meantime(
    db: Database, accounts: Accounts
) -> None:
    owner = await accounts.owner()
    reset_hash = await passwords.hash_of("chosen with the reset link")
    async with db.transaction() as reset:
        await queries.set_password(reset, owner.visitor.person_id, reset_hash)
        change = asyncio.create_task(
            passwords.change(db, owner.visitor, PASSWORD, "another long phrase")
        )
        await until(
            lambda: db.value(
                "SELECT EXISTS (SELECT FROM pg_stat_activity"
                " WHERE datname = current_database() AND wait_event_type = 'Lock'"
                " AND query LIKE '%FROM person%FOR UPDATE%')"
            )
        )
    with pytest.raises(WrongPassword):
        await change
    await accounts.sign_in(owner.email, "chosen with the reset link")
