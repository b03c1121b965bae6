"""An invitation can be used once within seven days. Existing users must sign in to accept it."""

import asyncio
from datetime import timedelta

import pytest

from manilla.kit.database.connections import Database
from manilla.merchants.merchants import MerchantNotFound
from manilla.people import invitations, members, tokens
from manilla.people.invitations import (
    BadInvitation,
    NotYourInvitation,
    SignInToJoin,
)
from manilla.people.members import AlreadyMember
from manilla.people.passwords import WeakPassword
from manilla.people.persons import BadPerson
from manilla.people.roles import Realm, Role
from manilla.people.sessions import NewSession
from tests.people.accounts import BROWSER, PASSWORD, Accounts, Owner, new_address, new_email


async def invite(accounts: Accounts, owner: Owner, email: str, role: Role = Role.FINANCE) -> str:
    return await invitations.invite(
        accounts.db, accounts.keyring, owner.visitor.person_id, owner.merchant_id, email, role
    )


async def accept(
    accounts: Accounts, token: str, realm: Realm = Realm.DASHBOARD, password: str = PASSWORD
) -> NewSession:
    return await invitations.accept(
        accounts.db,
        realm,
        token,
        name="Efe",
        password=password,
        address=new_address(),
        user_agent=BROWSER,
    )


async def test_an_invited_new_user_chooses_a_password_and_is_signed_in(
    db: Database, accounts: Accounts
) -> None:
    owner, email = await accounts.owner(), new_email()
    token = await invite(accounts, owner, email.upper())
    shown = await invitations.look_at(db, Realm.DASHBOARD, token)
    assert (shown.email, shown.role, shown.merchant_name) == (email, "finance", "Ada Stores")
    assert not await invitations.has_account(db, shown)
    with pytest.raises(WeakPassword):
        await accept(accounts, token, password="short")
    session = await accept(accounts, token)
    visitor = await accounts.visitor(session.token)
    assert (visitor.email, visitor.name, visitor.role) == (email, "Efe", "finance")
    assert visitor.merchant_id == owner.merchant_id
    await accounts.sign_in(email)
    with pytest.raises(AlreadyMember):
        await invite(accounts, owner, email)


@pytest.mark.parametrize(
    "email",
    ["x<tag>@e.example", "x@e", "a b@e.example", "x@e.example,y@e.example", "x\u202e@e.example"],
)
async def test_only_a_valid_email_can_be_invited(accounts: Accounts, email: str) -> None:
    owner = await accounts.owner()
    with pytest.raises(BadPerson):
        await invite(accounts, owner, email)


async def test_an_invitation_works_once_even_when_used_concurrently(accounts: Accounts) -> None:
    owner = await accounts.owner()
    token = await invite(accounts, owner, new_email())
    answers = await asyncio.gather(
        *(accept(accounts, token) for _ in range(3)), return_exceptions=True
    )
    assert sorted(type(each).__name__ for each in answers) == [
        "BadInvitation",
        "BadInvitation",
        "NewSession",
    ]
    with pytest.raises(BadInvitation):
        await accept(accounts, token)


async def test_an_expired_withdrawn_or_replaced_invitation_is_invalid(
    db: Database, accounts: Accounts
) -> None:
    owner, email = await accounts.owner(), new_email()
    replaced = await invite(accounts, owner, email)
    withdrawn = await invite(accounts, owner, email)
    [only] = await invitations.list_open(db, owner.merchant_id)
    stranger = await accounts.owner()
    with pytest.raises(BadInvitation):
        await invitations.withdraw(db, stranger.merchant_id, only.id)
    await invitations.withdraw(db, owner.merchant_id, only.id)
    expired = await invite(accounts, owner, email)
    await db.execute(
        "UPDATE invitation SET expires_at = expires_at - $2::interval WHERE token_hash = $1",
        tokens.digest(expired),
        timedelta(days=7),
    )
    for token in (replaced, withdrawn, expired, "", "made up"):
        with pytest.raises(BadInvitation):
            await accept(accounts, token)
    assert await invitations.list_open(db, owner.merchant_id) == []
    assert len(await members.list_of(db, owner.merchant_id)) == 1


async def test_an_existing_user_joins_only_while_signed_in(
    db: Database, accounts: Accounts
) -> None:
    owner, known, stranger = [await accounts.owner() for _ in range(3)]
    token = await invite(accounts, owner, known.email, Role.DEVELOPER)
    assert await invitations.has_account(db, await invitations.look_at(db, Realm.DASHBOARD, token))
    with pytest.raises(SignInToJoin):
        await accept(accounts, token, password="a password of a thief")
    with pytest.raises(NotYourInvitation):
        await invitations.join(db, stranger.visitor, token)
    assert await invitations.join(db, known.visitor, token) == owner.merchant_id
    visitor = await accounts.visitor(known.token)
    assert (visitor.merchant_id, visitor.role) == (owner.merchant_id, "developer")
    with pytest.raises(BadInvitation):
        await invitations.join(db, known.visitor, token)
    await accounts.sign_in(known.email)


async def test_an_invitation_is_valid_in_one_realm_only(accounts: Accounts) -> None:
    owner = await accounts.owner()
    token = await invite(accounts, owner, new_email())
    with pytest.raises(BadInvitation):
        await accept(accounts, token, Realm.CONSOLE)


async def test_inviting_to_an_unknown_merchant_is_rejected(
    db: Database, accounts: Accounts
) -> None:
    with pytest.raises(MerchantNotFound):
        await invitations.invite(db, accounts.keyring, None, 999_999_999, new_email(), Role.VIEWER)
