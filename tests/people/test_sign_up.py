"""A sign-up creates a pending merchant, its owner and a session, or changes nothing at all."""

import asyncio

import pytest

from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.merchants import merchants
from manilla.merchants import queries as merchant_queries
from manilla.people import members, sign_up
from manilla.people.passwords import WeakPassword
from manilla.people.persons import BadPerson
from manilla.people.sign_up import SignedUp, SignUpRefused
from manilla.people.throttle import TooManyAttempts
from tests.people.accounts import BROWSER, PASSWORD, Accounts, new_address, new_email


async def apply(accounts: Accounts, address: str | None = None, **changed: str) -> SignedUp:
    given = {
        "business_name": "Ngozi Foods",
        "name": "Ngozi",
        "email": new_email(),
        "password": PASSWORD,
        **changed,
    }
    return await sign_up.sign_up(
        accounts.db, accounts.keyring, **given, address=address or new_address(), user_agent=BROWSER
    )


async def counts(db: Database) -> tuple[int, int]:
    return (
        await db.value("SELECT count(*) FROM merchant"),
        await db.value("SELECT count(*) FROM person"),
    )


async def test_a_new_user_owns_a_pending_merchant_with_keys_for_both_environments(
    db: Database, accounts: Accounts
) -> None:
    signed = await apply(accounts)
    merchant = await merchants.get(db, signed.merchant.id)
    assert (merchant.name, merchant.status) == ("Ngozi Foods", "pending")
    for environment in Environment:
        assert len(await merchant_queries.credentials(db, merchant.id, environment)) == 1
    [member] = await members.list_of(db, merchant.id)
    assert (member.email, member.role) == (merchant.email, "owner")
    visitor = await accounts.visitor(signed.session.token)
    assert (visitor.merchant_id, visitor.merchant_status) == (merchant.id, "pending")


async def test_a_known_email_is_rejected_and_nothing_is_created(
    db: Database, accounts: Accounts
) -> None:
    owner = await accounts.owner()
    before = await counts(db)
    with pytest.raises(SignUpRefused) as refused:
        await apply(accounts, email=owner.email.upper())
    assert "exist" not in refused.value.text
    assert await counts(db) == before


async def test_of_two_concurrent_sign_ups_with_one_email_one_succeeds(
    db: Database, accounts: Accounts
) -> None:
    email, before = new_email(), await counts(db)
    answers = await asyncio.gather(
        *(apply(accounts, email=email) for _ in range(3)), return_exceptions=True
    )
    assert sorted(type(each).__name__ for each in answers) == [
        "SignUpRefused",
        "SignUpRefused",
        "SignedUp",
    ]
    assert await counts(db) == (before[0] + 1, before[1] + 1)


async def test_invalid_fields_create_nothing(db: Database, accounts: Accounts) -> None:
    before = await counts(db)
    for refusal, changed in [
        (BadPerson, {"email": "nobody"}),
        (BadPerson, {"name": " "}),
        (BadPerson, {"name": "a\x00b"}),
        (merchants.BadMerchant, {"business_name": ""}),
        (WeakPassword, {"password": "short"}),
    ]:
        with pytest.raises(refusal):
            await apply(accounts, **changed)
    assert await counts(db) == before


async def test_sign_ups_from_one_ip_are_limited(accounts: Accounts) -> None:
    owner, address = await accounts.owner(), new_address()
    for _ in range(10):
        with pytest.raises(SignUpRefused):
            await apply(accounts, address, email=owner.email)
    with pytest.raises(TooManyAttempts):
        await apply(accounts, address)
