"""The audit log records each change to a user and who made it, but no tokens or codes."""

from manilla.audit import audit
from manilla.audit.actor import Actor, ActorKind, acting
from manilla.audit.audit import AuditFilter
from manilla.audit.entry import AuditEntry
from manilla.people import (
    console_people,
    invitations,
    members,
    passwords,
    persons,
    resets,
    second_factor,
)
from manilla.people.roles import ConsoleRole, Realm, Role
from tests.people.accounts import BROWSER, PASSWORD, Accounts, new_address, new_email

ADA = Actor(ActorKind.PERSON, 7, "Ada", "console")
NEW_PASSWORD = "another long enough phrase"


async def about(accounts: Accounts, person_id: int) -> list[AuditEntry]:
    return (await audit.list_entries(accounts.db, AuditFilter(subject=f"person:{person_id}")))[::-1]


async def test_changes_to_console_users_are_logged(accounts: Accounts) -> None:
    db, email = accounts.db, new_email()
    with acting(ADA):
        new = await console_people.create(
            db, accounts.keyring, email=email, name="Bola", role=ConsoleRole.SUPPORT
        )
        number = new.person.id
        again = await console_people.invite_again(db, accounts.keyring, number)
        for role in (ConsoleRole.OPERATIONS, ConsoleRole.OPERATIONS):
            await console_people.change_role(db, number, role)
        for work in (persons.disable, persons.disable, persons.enable, persons.enable):
            await work(db, number)
        await persons.sign_out(db, number)
        reset = await resets.begin(db, accounts.keyring, number)
        await resets.use(db, Realm.CONSOLE, reset, NEW_PASSWORD)
        await persons.change_profile(db, number, "Bola Ade", None)
    lines = await about(accounts, number)
    assert [line.action for line in lines] == [
        "person.create",
        "person.invite",
        "person.role",  # The second call changed nothing, so there is no second entry.
        "person.disable",
        "person.enable",
        "person.sign_out",
        "person.reset_link",
        "person.password",
        "person.profile",
    ]
    assert {line.actor_name for line in lines} == {"Ada"}
    assert lines[2].detail["changed"] == {"role": {"before": "support", "after": "operations"}}
    assert lines[3].detail == {"realm": "console", "email": email, "sessions_ended": 0}
    written = repr([line.detail for line in lines])
    for secret in (new.token, again, reset, NEW_PASSWORD):
        assert str(secret) not in written


async def test_changes_to_merchant_users_are_logged(accounts: Accounts) -> None:
    db, owner = accounts.db, await accounts.owner()
    merchant_id = owner.merchant_id
    with acting(ADA):
        added = await members.add(
            db,
            merchant_id,
            email=new_email(),
            name="Efe",
            role=Role.VIEWER,
            password=PASSWORD,
        )
        await members.change_role(db, merchant_id, added.id, Role.FINANCE)
        await members.remove(db, merchant_id, added.id)
        token = await invitations.invite(
            db, accounts.keyring, None, merchant_id, new_email(), Role.VIEWER
        )
        await invitations.accept(
            db,
            Realm.DASHBOARD,
            token,
            name="Chi",
            password=PASSWORD,
            address=new_address(),
            user_agent=BROWSER,
        )
        await invitations.invite(db, accounts.keyring, None, merchant_id, new_email(), Role.VIEWER)
        [left] = await invitations.list_open(db, merchant_id)
        await invitations.withdraw(db, merchant_id, left.id)
    lines = (await audit.list_entries(db, AuditFilter(merchant_id=merchant_id)))[::-1]
    assert [line.action for line in lines if line.actor_name == "Ada"] == [
        "member.add",
        "member.role",
        "member.remove",
        "member.invite",
        "member.join",
        "member.invite",
        "member.withdraw",
    ]
    assert token not in repr([line.detail for line in lines])


async def test_changes_to_a_users_own_account_are_logged(accounts: Accounts) -> None:
    owner = await accounts.owner()
    app, codes = await accounts.turn_on_totp(owner.visitor)
    await passwords.change(accounts.db, owner.visitor, PASSWORD, NEW_PASSWORD)
    await second_factor.remove(accounts.db, owner.visitor.person_id)
    await second_factor.remove(accounts.db, owner.visitor.person_id)
    lines = await about(accounts, owner.visitor.person_id)
    assert [line.action for line in lines] == [
        "person.second_factor_on",
        "person.password",
        "person.second_factor_off",  # The second call changed nothing, so there is no second entry.
    ]
    written = repr([line.detail for line in lines])
    assert all(secret not in written for secret in (app.secret, NEW_PASSWORD, *codes))
