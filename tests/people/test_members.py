"""Team members: role changes apply immediately, and a merchant always has an owner."""

import asyncio

import pytest

from manilla.kit.database.connections import Database
from manilla.people import console_people, invitations, members, persons, sessions
from manilla.people.invitations import BadInvitation
from manilla.people.members import LastOwner, MemberNotFound
from manilla.people.persons import BadPerson, EmailTaken, LastAdministrator, PersonNotFound
from manilla.people.roles import ConsoleRole, Realm, Role
from manilla.people.sign_in import SignInRefused
from tests.people.accounts import BROWSER, PASSWORD, Accounts, Owner, new_address, new_email


async def add_member(accounts: Accounts, owner: Owner, role: Role) -> Owner:
    """Adds a member to the owner's merchant. The new member also owns another merchant."""
    new = await accounts.owner()
    token = await invitations.invite(
        accounts.db, accounts.keyring, None, owner.merchant_id, new.email, role
    )
    await invitations.join(accounts.db, new.visitor, token)
    return new


async def test_a_changed_role_applies_to_the_next_request(db: Database, accounts: Accounts) -> None:
    owner = await accounts.owner()
    member = await add_member(accounts, owner, Role.VIEWER)
    await members.change_role(db, owner.merchant_id, member.visitor.person_id, Role.FINANCE)
    assert (await accounts.visitor(member.token)).role == "finance"
    listed = {each.email: each.role for each in await members.list_of(db, owner.merchant_id)}
    assert listed == {owner.email: "owner", member.email: "finance"}


async def test_a_removed_member_loses_only_sessions_with_that_merchant(
    db: Database, accounts: Accounts
) -> None:
    owner = await accounts.owner()
    member = await add_member(accounts, owner, Role.DEVELOPER)
    at_home = await accounts.sign_in(member.email)
    assert (await accounts.visitor(at_home)).merchant_id == member.merchant_id
    await members.remove(db, owner.merchant_id, member.visitor.person_id)
    assert (await accounts.is_signed_in(member.token), await accounts.is_signed_in(at_home)) == (
        False,
        True,
    )
    with pytest.raises(sessions.NotAMember):
        await sessions.choose_merchant(db, await accounts.visitor(at_home), owner.merchant_id)
    with pytest.raises(MemberNotFound):
        await members.remove(db, owner.merchant_id, member.visitor.person_id)


async def test_a_session_can_switch_between_its_users_merchants(
    db: Database, accounts: Accounts
) -> None:
    owner = await accounts.owner()
    member = await add_member(accounts, owner, Role.VIEWER)
    belongings = await members.merchants_of(db, member.visitor.person_id)
    assert {each.merchant_id: each.role for each in belongings} == {
        member.merchant_id: "owner",
        owner.merchant_id: "viewer",
    }
    await sessions.choose_merchant(db, member.visitor, member.merchant_id)
    assert (await accounts.visitor(member.token)).role == "owner"
    with pytest.raises(sessions.NotAMember):
        await sessions.choose_merchant(db, owner.visitor, member.merchant_id)


async def test_the_last_owner_cannot_be_removed(db: Database, accounts: Accounts) -> None:
    owner = await accounts.owner()
    await add_member(accounts, owner, Role.FINANCE)
    person_id = owner.visitor.person_id
    with pytest.raises(LastOwner):
        await members.remove(db, owner.merchant_id, person_id)
    with pytest.raises(LastOwner):
        await members.change_role(db, owner.merchant_id, person_id, Role.VIEWER)
    await members.change_role(db, owner.merchant_id, person_id, Role.OWNER)
    disabled = await add_member(accounts, owner, Role.OWNER)
    await persons.disable(db, disabled.visitor.person_id)
    with pytest.raises(LastOwner):
        await members.remove(db, owner.merchant_id, person_id)


async def test_two_owners_removing_each_other_concurrently_leave_one(
    db: Database, accounts: Accounts
) -> None:
    owner = await accounts.owner()
    other = await add_member(accounts, owner, Role.OWNER)
    answers = await asyncio.gather(
        members.remove(db, owner.merchant_id, owner.visitor.person_id),
        members.remove(db, owner.merchant_id, other.visitor.person_id),
        return_exceptions=True,
    )
    assert sorted(type(each).__name__ for each in answers) == ["LastOwner", "NoneType"]
    assert len(await members.list_of(db, owner.merchant_id)) == 1


async def test_a_profile_change_is_validated(db: Database, accounts: Accounts) -> None:
    owner = await accounts.owner()
    person_id = owner.visitor.person_id
    await persons.change_profile(db, person_id, " Ada Eze ", "+234 801 234 5678")
    person = await persons.get(db, person_id)
    assert (person.name, person.phone) == ("Ada Eze", "+234 801 234 5678")
    for name, phone in (("", None), ("Ada", "call me"), ("Ada", "1" * 30)):
        with pytest.raises(BadPerson):
            await persons.change_profile(db, person_id, name, phone)


async def test_a_new_console_user_chooses_a_password_by_invitation(
    db: Database, accounts: Accounts
) -> None:
    email = new_email()
    new = await console_people.create(
        db, accounts.keyring, email=email, name="Kemi", role=ConsoleRole.OPERATIONS
    )
    assert new.token is not None
    with pytest.raises(SignInRefused):
        await accounts.try_sign_in(email, "", realm=Realm.CONSOLE)
    with pytest.raises(EmailTaken):
        await console_people.create(
            db, accounts.keyring, email=email, name="Kemi", role=ConsoleRole.SUPPORT
        )
    again = await console_people.invite_again(db, accounts.keyring, new.person.id)
    where = {"name": "Kemi", "password": PASSWORD, "address": new_address(), "user_agent": BROWSER}
    with pytest.raises(BadInvitation):
        await invitations.accept(db, Realm.CONSOLE, new.token, **where)
    session = await invitations.accept(db, Realm.CONSOLE, again, **where)
    visitor = await accounts.visitor(session.token, Realm.CONSOLE)
    assert (visitor.email, visitor.role) == (email, "operations")
    await console_people.change_role(db, new.person.id, ConsoleRole.SUPPORT)
    assert (await accounts.visitor(session.token, Realm.CONSOLE)).role == "support"
    with pytest.raises(EmailTaken):
        await console_people.invite_again(db, accounts.keyring, new.person.id)


async def test_the_last_administrator_cannot_be_removed(db: Database, accounts: Accounts) -> None:
    await db.execute("UPDATE person SET status = 'disabled' WHERE realm = 'console'")
    first, _ = await accounts.administrator()
    invited = await console_people.create(
        db, accounts.keyring, email=new_email(), name="Uche", role=ConsoleRole.ADMINISTRATOR
    )
    with pytest.raises(LastAdministrator):
        await persons.disable(db, first)
    with pytest.raises(LastAdministrator):
        await console_people.change_role(db, first, ConsoleRole.SUPPORT)
    await persons.disable(db, invited.person.id)

    second, _ = await accounts.administrator()
    answers = await asyncio.gather(
        persons.disable(db, first),
        console_people.change_role(db, second, ConsoleRole.OPERATIONS),
        return_exceptions=True,
    )
    assert sorted(type(each).__name__ for each in answers) == ["LastAdministrator", "NoneType"]


async def test_a_merchant_user_has_no_console_role(db: Database, accounts: Accounts) -> None:
    owner = await accounts.owner()
    with pytest.raises(PersonNotFound):
        await console_people.change_role(db, owner.visitor.person_id, ConsoleRole.ADMINISTRATOR)
