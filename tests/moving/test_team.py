"""A merchant's users move with it. Nobody else gets access with a user's email address."""

import pytest

from manilla.cells.moving.fence import CannotMove
from manilla.cells.moving.stored import Step
from manilla.people import invitations, members, passwords, persons, resets
from manilla.people.roles import Realm, Role
from manilla.people.sign_in import NeedsCode, SignInRefused
from tests.moving.movers import Mover
from tests.people.accounts import PASSWORD, Accounts, new_email

THEIRS = "correct horse battery staple"


def _accounts(mover: Mover, cell: str) -> Accounts:
    services = mover.running(cell).services
    return Accounts(services.db, services.keyring)


async def _add(mover: Mover, email: str, role: Role = Role.OWNER, *, merchant: int = 0) -> None:
    await members.add(
        mover.db("lagos"),
        merchant or mover.merchant_id,
        email=email,
        name="Real Owner",
        role=role,
        password=THEIRS,
    )


async def _team(mover: Mover, cell: str) -> dict[str, str]:
    found = await members.list_of(mover.db(cell), mover.merchant_id)
    return {each.email: each.role for each in found}


async def _join(mover: Mover, cell: str, email: str, password: str) -> None:
    """Accepts a new invitation as the user who signs in with this password."""
    accounts = _accounts(mover, cell)
    token = await invitations.invite(
        *(accounts.db, accounts.keyring, None, mover.merchant_id, email, Role.OWNER)
    )
    visitor = await accounts.visitor(await accounts.sign_in(email, password))
    assert await invitations.join(accounts.db, visitor, token) == mover.merchant_id


async def test_somebody_who_signed_up_with_an_owners_email_gets_no_access(mover: Mover) -> None:
    email, merchant_id = new_email(), mover.merchant_id
    lagos, abuja = _accounts(mover, "lagos"), _accounts(mover, "abuja")
    await _add(mover, email)
    stranger = await abuja.owner(email)
    with pytest.raises(CannotMove, match=f"these members: {email}.*--invite"):
        await mover.move()
    await lagos.sign_in(email, THEIRS)
    assert await mover.move(invites=True) == [email]
    assert await _team(mover, "abuja") == {}
    held = await members.merchants_of(abuja.db, stranger.visitor.person_id)
    assert [each.merchant_id for each in held] == [stranger.merchant_id]
    [open_invitation] = await invitations.list_open(abuja.db, merchant_id)
    assert (open_invitation.email, open_invitation.role) == (email, "owner")
    # Who reads the emails to the address can reset the password, and this ends the other sessions.
    person = await persons.find(abuja.db, Realm.DASHBOARD, email)
    reset = await resets.begin(abuja.db, abuja.keyring, person.id)
    await resets.use(abuja.db, Realm.DASHBOARD, reset, THEIRS)
    await _join(mover, "abuja", email, THEIRS)
    assert await _team(mover, "abuja") == {email: "owner"}
    assert not await abuja.is_signed_in(stranger.token)
    with pytest.raises(SignInRefused):
        await abuja.sign_in(email, PASSWORD)


async def test_a_sign_up_after_the_check_gets_no_access(mover: Mover) -> None:
    email, other = new_email(), new_email()
    abuja = _accounts(mover, "abuja")
    await _add(mover, email)
    await _add(mover, other, Role.FINANCE)
    await mover.move_until(Step.DISCONNECT)
    stranger = await abuja.owner(email)
    await mover.resume()
    assert await _team(mover, "abuja") == {other: "finance"}
    [invited] = await invitations.list_open(abuja.db, mover.merchant_id)
    assert (invited.email, invited.role) == (email, "owner")
    held = await members.merchants_of(abuja.db, stranger.visitor.person_id)
    assert [each.merchant_id for each in held] == [stranger.merchant_id]
    await abuja.sign_in(other, THEIRS)


async def test_an_account_without_a_merchant_is_replaced(mover: Mover) -> None:
    email = new_email()
    abuja = _accounts(mover, "abuja")
    await _add(mover, email)
    stranger = await abuja.owner(email)
    await mover.owners["abuja"].execute(
        "DELETE FROM membership WHERE person_id = $1", stranger.visitor.person_id
    )
    await mover.owners["abuja"].execute(
        "INSERT INTO company_identity (merchant_id, issuer, subject, person_id)"
        " VALUES ($1, 'https://login.example', 'ada', $2)",
        *(stranger.merchant_id, stranger.visitor.person_id),
    )
    assert await mover.move() == []
    assert await _team(mover, "abuja") == {email: "owner"}
    assert not await abuja.is_signed_in(stranger.token)
    with pytest.raises(SignInRefused):
        await abuja.sign_in(email, PASSWORD)
    visitor = await abuja.visitor(await abuja.sign_in(email, THEIRS))
    assert (visitor.merchant_id, visitor.role) == (mover.merchant_id, "owner")
    assert visitor.person_id != stranger.visitor.person_id


async def test_a_merchant_returns_with_its_team_and_their_new_passwords(mover: Mover) -> None:
    owner, finance, changed = new_email(), new_email(), "another long enough phrase"
    lagos, abuja = _accounts(mover, "lagos"), _accounts(mover, "abuja")
    await _add(mover, owner)
    await _add(mover, finance, Role.FINANCE)
    old = await lagos.sign_in(owner, THEIRS)
    await mover.move()
    visitor = await abuja.visitor(await abuja.sign_in(owner, THEIRS))
    await abuja.turn_on_totp(visitor)
    await passwords.change(abuja.db, visitor, THEIRS, changed)
    await lagos.sign_in(owner, THEIRS)  # without a merchant
    assert await mover.move("lagos") == []
    assert await _team(mover, "lagos") == {owner: "owner", finance: "finance"}
    assert isinstance(await lagos.try_sign_in(owner, changed), NeedsCode)
    with pytest.raises(SignInRefused):
        await lagos.sign_in(owner, THEIRS)
    assert not await lagos.is_signed_in(old)
    await lagos.sign_in(finance, THEIRS)


async def test_a_user_of_two_merchants_keeps_one_account(mover: Mover) -> None:
    email = new_email()
    lagos, abuja = _accounts(mover, "lagos"), _accounts(mover, "abuja")
    second = (await mover.other_merchant("lagos")).merchant.new.id
    await _add(mover, email)
    await _add(mover, email, Role.VIEWER, merchant=second)
    await lagos.turn_on_totp(await lagos.visitor(await lagos.sign_in(email, THEIRS)))
    await mover.move()
    assert await mover.move(merchant_id=second) == []
    person = await persons.find(abuja.db, Realm.DASHBOARD, email)
    held = await members.merchants_of(abuja.db, person.id)
    assert {each.merchant_id: each.role for each in held} == {
        mover.merchant_id: "owner",
        second: "viewer",
    }


@pytest.mark.parametrize("change", ["password", "second_factor", "disabled"])
async def test_a_user_whose_accounts_differ_is_invited(mover: Mover, change: str) -> None:
    """The user has a merchant in each cell, and changed their account in one of the cells."""
    email = new_email()
    lagos = _accounts(mover, "lagos")
    second = (await mover.other_merchant("lagos")).merchant.new.id
    await _add(mover, email)
    await _add(mover, email, Role.VIEWER, merchant=second)
    await mover.move(merchant_id=second)
    visitor = await lagos.visitor(await lagos.sign_in(email, THEIRS))
    if change == "password":
        await passwords.change(lagos.db, visitor, THEIRS, "another long enough phrase")
    elif change == "second_factor":
        await lagos.turn_on_totp(visitor)
    else:
        await persons.disable(lagos.db, visitor.person_id)
        assert await mover.move() == []
        assert await _team(mover, "abuja") == {}
        return
    with pytest.raises(CannotMove, match=email):
        await mover.move()
    assert await mover.move(invites=True) == [email]
    assert await _team(mover, "abuja") == {}
    await _join(mover, "abuja", email, THEIRS)
    assert await _team(mover, "abuja") == {email: "owner"}
