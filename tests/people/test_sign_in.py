"""The door: one refusal for all, few guesses, a new token every time."""

import asyncio

import pytest

from manilla.kit import ratelimit
from manilla.kit.db import Database
from manilla.people import devices, persons, sessions, tokens
from manilla.people.roles import ConsoleRole, Permission, Realm
from manilla.people.second_factor import CodeRefused
from manilla.people.sign_in import NeedsCode, SignedIn, SignInRefused
from manilla.people.throttle import TooManyAttempts
from tests.people.street import PASSWORD, Street, code_of, new_address, new_email


async def sessions_of(db: Database, person_id: int) -> int:
    count: int = await db.value("SELECT count(*) FROM session WHERE person_id = $1", person_id)
    return count


async def test_the_right_password_opens_and_email_case_does_not_matter(
    db: Database, street: Street
) -> None:
    owner = await street.owner("Chi.Ma@Example.com")
    token = await street.sign_in("  chi.MA@example.COM ")
    visitor = await street.visitor(token)
    assert (visitor.email, visitor.role, visitor.realm) == (
        "chi.ma@example.com",
        "owner",
        Realm.DASHBOARD,
    )
    assert (visitor.merchant_id, visitor.merchant_name) == (owner.merchant_id, "Ada Stores")
    assert (visitor.merchant_status, visitor.second_factor) == ("pending", False)
    assert visitor.may(Permission.MOVE_MONEY)
    person = await persons.get(db, visitor.person_id)
    assert person.last_login_at is not None


async def test_the_refusal_does_not_tell_why(db: Database, street: Street) -> None:
    owner, disabled = await street.owner(), await street.owner()
    await persons.disable(db, disabled.visitor.person_id)
    before = await sessions_of(db, owner.visitor.person_id)
    texts = set()
    for email, password in [
        (owner.email, "a wrong password!"),
        (owner.email, ""),
        (disabled.email, PASSWORD),
        (new_email(), PASSWORD),
        ("not an address", PASSWORD),
        ("nul\x00@example.com", PASSWORD),
        ("x" * 5000 + "@example.com", PASSWORD),
        ("\ud800@example.com", "\ud800"),
    ]:
        with pytest.raises(SignInRefused) as refused:
            await street.try_door(email, password)
        texts.add((refused.value.status, refused.value.code, refused.value.text))
    assert len(texts) == 1
    assert await sessions_of(db, owner.visitor.person_id) == before
    assert await sessions_of(db, disabled.visitor.person_id) == 0


async def test_the_realms_never_mix(street: Street) -> None:
    owner = await street.owner()
    _, administrator = await street.administrator(ConsoleRole.SUPPORT)
    with pytest.raises(SignInRefused):
        await street.try_door(owner.email, realm=Realm.CONSOLE)
    with pytest.raises(SignInRefused):
        await street.try_door(administrator, realm=Realm.DASHBOARD)
    token = await street.sign_in(administrator, realm=Realm.CONSOLE)
    assert not await street.is_in(token, Realm.DASHBOARD)
    assert not await street.is_in(owner.token, Realm.CONSOLE)
    visitor = await street.visitor(token, Realm.CONSOLE)
    assert (visitor.role, visitor.merchant_id) == ("support", None)
    with pytest.raises(sessions.NotAMember):
        await sessions.choose_merchant(street.db, visitor, owner.merchant_id)


async def test_every_sign_in_has_a_new_token_of_which_only_the_hash_is_kept(
    db: Database, street: Street
) -> None:
    owner = await street.owner()
    made = {owner.token, *[await street.sign_in(owner.email) for _ in range(3)]}
    assert len(made) == 4
    assert all(len(token) >= 43 for token in made)
    kept = await db.records(
        "SELECT session::text AS row, token_hash FROM session WHERE person_id = $1",
        owner.visitor.person_id,
    )
    assert {row["token_hash"] for row in kept} == {tokens.digest(token) for token in made}
    assert not any(token in row["row"] for row in kept for token in made)


async def test_guesses_at_one_email_from_one_address_are_few_even_at_once(street: Street) -> None:
    owner, address = await street.owner(), new_address()
    answers = await asyncio.gather(
        *(street.try_door(owner.email, f"guess number {n}", address=address) for n in range(14)),
        return_exceptions=True,
    )
    assert sorted(type(answer).__name__ for answer in answers) == (
        ["SignInRefused"] * 10 + ["TooManyAttempts"] * 4
    )
    with pytest.raises(TooManyAttempts) as refused:
        await street.try_door(owner.email, address=address)
    assert 0 < (refused.value.retry_after_seconds or 0) <= 900


async def test_a_strangers_wrong_passwords_do_not_lock_the_person_out(street: Street) -> None:
    owner, stranger = await street.owner(), new_address()
    for n in range(12):
        with pytest.raises((SignInRefused, TooManyAttempts)):
            await street.try_door(owner.email, f"guess number {n}", address=stranger)
    assert isinstance(await street.try_door(owner.email), SignedIn)


async def test_guesses_at_one_email_from_many_addresses_are_limited(street: Street) -> None:
    owner = await street.owner()
    answers = await asyncio.gather(
        *(street.try_door(owner.email, f"guess number {n}") for n in range(54)),
        return_exceptions=True,
    )
    assert sorted(type(answer).__name__ for answer in answers) == (
        ["SignInRefused"] * 50 + ["TooManyAttempts"] * 4
    )
    with pytest.raises(TooManyAttempts):
        await street.try_door(owner.email)


async def test_a_known_device_gets_through_and_has_few_guesses_of_its_own(street: Street) -> None:
    owner = await street.owner()
    device = devices.issue(street.keyring, Realm.DASHBOARD, owner.visitor.person_id)
    await street.lock(owner.email)
    for n in range(9):
        with pytest.raises(SignInRefused):
            await street.try_door(owner.email, f"guess number {n}", device=device)
    assert isinstance(await street.try_door(owner.email, device=device), SignedIn)
    with pytest.raises(SignInRefused):
        await street.try_door(owner.email, "guess number 10", device=device)
    with pytest.raises(TooManyAttempts):
        await street.try_door(owner.email, device=device)


async def test_only_the_persons_own_device_is_known(street: Street) -> None:
    owner, other = await street.owner(), await street.owner()
    person_id = owner.visitor.person_id
    mine = devices.issue(street.keyring, Realm.DASHBOARD, person_id)
    number, expires, device, mac = mine.split(".")
    await street.lock(owner.email)
    for cookie in (
        devices.issue(street.keyring, Realm.DASHBOARD, other.visitor.person_id),
        devices.issue(street.keyring, Realm.CONSOLE, person_id),
        f"{number}.{int(expires) + 1}.{device}.{mac}",
        f"{number}.{expires}.{device}x.{mac}",
        f"{number}.{expires}.{device}.",
        "...",
        "\ud800",
        "x" * 5000,
    ):
        with pytest.raises(TooManyAttempts):
            await street.try_door(owner.email, device=cookie)


async def test_a_right_code_gets_past_the_limit_with_the_right_password_alone(
    street: Street,
) -> None:
    owner = await street.owner()
    app, _ = await street.turn_on_totp(owner.visitor)
    await street.lock(owner.email)
    with pytest.raises(TooManyAttempts):
        await street.try_door(owner.email)
    texts = set()
    for password, code in ((PASSWORD, "000000"), ("a wrong password!", code_of(app))):
        with pytest.raises(SignInRefused) as refused:
            await street.try_door(owner.email, password, code)
        texts.add(refused.value.text)
    assert texts == {"The email address, password or code is wrong."}
    assert isinstance(await street.try_door(owner.email, code=code_of(app)), SignedIn)


async def test_past_the_limit_an_address_has_few_tries_and_a_person_few_codes(
    street: Street,
) -> None:
    owner, address = await street.owner(), new_address()
    app, _ = await street.turn_on_totp(owner.visitor)
    await street.lock(owner.email)
    for _ in range(10):
        with pytest.raises(SignInRefused):
            await street.try_door(owner.email, "a wrong password!", "000000", address=address)
    with pytest.raises(TooManyAttempts):
        await street.try_door(owner.email, code=code_of(app), address=address)
    # Wrong passwords have used up no code; ten wrong codes with the right password do.
    for _ in range(10):
        with pytest.raises(SignInRefused):
            await street.try_door(owner.email, code="12345")
    with pytest.raises(SignInRefused):
        await street.try_door(owner.email, code=code_of(app))


async def test_an_unknown_email_is_throttled_like_a_known_one(street: Street) -> None:
    email, address = new_email(), new_address()
    for _ in range(10):
        with pytest.raises(SignInRefused):
            await street.try_door(email, address=address)
    with pytest.raises(TooManyAttempts):
        await street.try_door(email, address=address)
    await street.lock(email)
    with pytest.raises(TooManyAttempts):
        await street.try_door(email)


async def test_an_email_that_was_shut_opens_when_the_window_ends(
    db: Database, street: Street
) -> None:
    owner = await street.owner()
    address = new_address()
    for n in range(12):
        with pytest.raises((SignInRefused, TooManyAttempts)):
            await street.try_door(owner.email, f"guess number {n}", address=address)
    # Refused attempts do not lengthen the window, and the limiter's broom does not shorten it.
    await ratelimit.forget_ended_windows(db)
    with pytest.raises(TooManyAttempts):
        await street.try_door(owner.email, address=address)
    await db.execute(
        "UPDATE rate_window SET started_at = started_at - interval '15 minutes'"
        " WHERE bucket LIKE 'slow:sign-in:%'"
    )
    await ratelimit.forget_ended_windows(db)
    left = await db.value("SELECT count(*) FROM rate_window WHERE bucket LIKE $1", f"%{address}")
    assert left == 0
    assert isinstance(await street.try_door(owner.email, address=address), SignedIn)


async def test_guesses_from_one_address_are_few_and_then_harm_no_email(
    db: Database, street: Street
) -> None:
    owner = await street.owner()
    with pytest.raises(SignInRefused):
        await street.try_door(new_email(), address="2001:db8:1:2::1")
    await db.execute(
        "UPDATE rate_window SET used = 29 WHERE bucket = $1",
        "slow:sign-in:dashboard:address:2001:db8:1:2::/64",
    )
    with pytest.raises(SignInRefused):
        await street.try_door(new_email(), address="2001:db8:1:2::beef")
    for _ in range(12):
        with pytest.raises(TooManyAttempts):
            await street.try_door(owner.email, address="2001:db8:1:2:3::4")
    await street.sign_in(owner.email)


async def test_signing_in_often_is_no_failure(street: Street) -> None:
    owner = await street.owner()
    address = new_address()
    for _ in range(12):
        assert isinstance(await street.try_door(owner.email, address=address), SignedIn)


async def test_a_code_is_asked_for_only_after_the_right_password(street: Street) -> None:
    owner = await street.owner()
    app, _ = await street.turn_on_totp(owner.visitor)
    with pytest.raises(SignInRefused):
        await street.try_door(owner.email, "a wrong password!", code_of(app))
    assert isinstance(await street.try_door(owner.email), NeedsCode)
    with pytest.raises(CodeRefused):
        await street.try_door(owner.email, code="000000" if code_of(app) != "000000" else "1")
    answer = await street.try_door(owner.email, code=code_of(app))
    assert isinstance(answer, SignedIn)
    visitor = await street.visitor(answer.session.token)
    assert (visitor.has_totp, visitor.second_factor) == (True, True)


async def test_guesses_at_the_code_count_like_guesses_at_the_password(street: Street) -> None:
    owner = await street.owner()
    await street.turn_on_totp(owner.visitor)
    for _ in range(10):
        with pytest.raises(CodeRefused):
            await street.try_door(owner.email, code="12345")
    with pytest.raises(TooManyAttempts):
        await street.try_door(owner.email, code="12345")
