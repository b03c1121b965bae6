"""Sign-in: one error message for all failures, limited attempts, and a new session token."""

import asyncio

import pytest

from manilla.kit import ratelimit
from manilla.kit.database.connections import Database
from manilla.people import devices, persons, sessions, tokens
from manilla.people.roles import ConsoleRole, Permission, Realm
from manilla.people.second_factor import CodeRefused
from manilla.people.sign_in import NeedsCode, SignedIn, SignInRefused
from manilla.people.throttle import TooManyAttempts
from tests.people.accounts import PASSWORD, Accounts, code_of, new_address, new_email


async def sessions_of(db: Database, person_id: int) -> int:
    count: int = await db.value("SELECT count(*) FROM session WHERE person_id = $1", person_id)
    return count


async def test_the_right_password_signs_in_whatever_the_case_of_the_email(
    db: Database, accounts: Accounts
) -> None:
    owner = await accounts.owner("Chi.Ma@Example.com")
    token = await accounts.sign_in("  chi.MA@example.COM ")
    visitor = await accounts.visitor(token)
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


async def test_the_error_does_not_reveal_the_reason(db: Database, accounts: Accounts) -> None:
    owner, disabled = await accounts.owner(), await accounts.owner()
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
            await accounts.try_sign_in(email, password)
        texts.add((refused.value.status, refused.value.code, refused.value.text))
    assert len(texts) == 1
    assert await sessions_of(db, owner.visitor.person_id) == before
    assert await sessions_of(db, disabled.visitor.person_id) == 0


async def test_sessions_of_one_realm_do_not_work_in_the_other(accounts: Accounts) -> None:
    owner = await accounts.owner()
    _, administrator = await accounts.administrator(ConsoleRole.SUPPORT)
    with pytest.raises(SignInRefused):
        await accounts.try_sign_in(owner.email, realm=Realm.CONSOLE)
    with pytest.raises(SignInRefused):
        await accounts.try_sign_in(administrator, realm=Realm.DASHBOARD)
    token = await accounts.sign_in(administrator, realm=Realm.CONSOLE)
    assert not await accounts.is_signed_in(token, Realm.DASHBOARD)
    assert not await accounts.is_signed_in(owner.token, Realm.CONSOLE)
    visitor = await accounts.visitor(token, Realm.CONSOLE)
    assert (visitor.role, visitor.merchant_id) == ("support", None)
    with pytest.raises(sessions.NotAMember):
        await sessions.choose_merchant(accounts.db, visitor, owner.merchant_id)


async def test_every_sign_in_creates_a_new_token_stored_only_as_a_hash(
    db: Database, accounts: Accounts
) -> None:
    owner = await accounts.owner()
    made = {owner.token, *[await accounts.sign_in(owner.email) for _ in range(3)]}
    assert len(made) == 4
    assert all(len(token) >= 43 for token in made)
    kept = await db.records(
        "SELECT session::text AS row, token_hash FROM session WHERE person_id = $1",
        owner.visitor.person_id,
    )
    assert {row["token_hash"] for row in kept} == {tokens.digest(token) for token in made}
    assert not any(token in row["row"] for row in kept for token in made)


async def test_attempts_for_one_email_from_one_ip_are_limited_even_concurrently(
    accounts: Accounts,
) -> None:
    owner, address = await accounts.owner(), new_address()
    answers = await asyncio.gather(
        *(
            accounts.try_sign_in(owner.email, f"guess number {n}", address=address)
            for n in range(14)
        ),
        return_exceptions=True,
    )
    assert sorted(type(answer).__name__ for answer in answers) == (
        ["SignInRefused"] * 10 + ["TooManyAttempts"] * 4
    )
    with pytest.raises(TooManyAttempts) as refused:
        await accounts.try_sign_in(owner.email, address=address)
    assert 0 < (refused.value.retry_after_seconds or 0) <= 900


async def test_a_strangers_wrong_passwords_do_not_lock_the_user_out(accounts: Accounts) -> None:
    owner, stranger = await accounts.owner(), new_address()
    for n in range(12):
        with pytest.raises((SignInRefused, TooManyAttempts)):
            await accounts.try_sign_in(owner.email, f"guess number {n}", address=stranger)
    assert isinstance(await accounts.try_sign_in(owner.email), SignedIn)


async def test_attempts_for_one_email_from_many_ips_are_limited(accounts: Accounts) -> None:
    owner = await accounts.owner()
    answers = await asyncio.gather(
        *(accounts.try_sign_in(owner.email, f"guess number {n}") for n in range(54)),
        return_exceptions=True,
    )
    assert sorted(type(answer).__name__ for answer in answers) == (
        ["SignInRefused"] * 50 + ["TooManyAttempts"] * 4
    )
    with pytest.raises(TooManyAttempts):
        await accounts.try_sign_in(owner.email)


async def test_a_known_device_is_not_locked_out_and_has_its_own_limit(
    accounts: Accounts,
) -> None:
    owner = await accounts.owner()
    device = devices.issue(accounts.keyring, Realm.DASHBOARD, owner.visitor.person_id)
    await accounts.lock(owner.email)
    for n in range(9):
        with pytest.raises(SignInRefused):
            await accounts.try_sign_in(owner.email, f"guess number {n}", device=device)
    assert isinstance(await accounts.try_sign_in(owner.email, device=device), SignedIn)
    with pytest.raises(SignInRefused):
        await accounts.try_sign_in(owner.email, "guess number 10", device=device)
    with pytest.raises(TooManyAttempts):
        await accounts.try_sign_in(owner.email, device=device)


async def test_a_device_is_known_only_for_its_own_user(accounts: Accounts) -> None:
    owner, other = await accounts.owner(), await accounts.owner()
    person_id = owner.visitor.person_id
    mine = devices.issue(accounts.keyring, Realm.DASHBOARD, person_id)
    number, expires, device, mac = mine.split(".")
    await accounts.lock(owner.email)
    for cookie in (
        devices.issue(accounts.keyring, Realm.DASHBOARD, other.visitor.person_id),
        devices.issue(accounts.keyring, Realm.CONSOLE, person_id),
        f"{number}.{int(expires) + 1}.{device}.{mac}",
        f"{number}.{expires}.{device}x.{mac}",
        f"{number}.{expires}.{device}.",
        "...",
        "\ud800",
        "x" * 5000,
    ):
        with pytest.raises(TooManyAttempts):
            await accounts.try_sign_in(owner.email, device=cookie)


async def test_a_valid_code_gets_past_the_limit_only_with_the_right_password(
    accounts: Accounts,
) -> None:
    owner = await accounts.owner()
    app, _ = await accounts.turn_on_totp(owner.visitor)
    await accounts.lock(owner.email)
    with pytest.raises(TooManyAttempts):
        await accounts.try_sign_in(owner.email)
    texts = set()
    for password, code in ((PASSWORD, "000000"), ("a wrong password!", code_of(app))):
        with pytest.raises(SignInRefused) as refused:
            await accounts.try_sign_in(owner.email, password, code)
        texts.add(refused.value.text)
    assert texts == {"The email address, password or code is wrong."}
    assert isinstance(await accounts.try_sign_in(owner.email, code=code_of(app)), SignedIn)


async def test_past_the_limit_an_ip_and_a_user_have_few_attempts(
    accounts: Accounts,
) -> None:
    owner, address = await accounts.owner(), new_address()
    app, _ = await accounts.turn_on_totp(owner.visitor)
    await accounts.lock(owner.email)
    for _ in range(10):
        with pytest.raises(SignInRefused):
            await accounts.try_sign_in(owner.email, "a wrong password!", "000000", address=address)
    with pytest.raises(TooManyAttempts):
        await accounts.try_sign_in(owner.email, code=code_of(app), address=address)
    # Wrong passwords do not count toward the limit on codes.
    # Ten wrong codes with the right password do count.
    for _ in range(10):
        with pytest.raises(SignInRefused):
            await accounts.try_sign_in(owner.email, code="12345")
    with pytest.raises(SignInRefused):
        await accounts.try_sign_in(owner.email, code=code_of(app))


async def test_an_unknown_email_is_rate_limited_like_a_known_one(accounts: Accounts) -> None:
    email, address = new_email(), new_address()
    for _ in range(10):
        with pytest.raises(SignInRefused):
            await accounts.try_sign_in(email, address=address)
    with pytest.raises(TooManyAttempts):
        await accounts.try_sign_in(email, address=address)
    await accounts.lock(email)
    with pytest.raises(TooManyAttempts):
        await accounts.try_sign_in(email)


async def test_a_locked_email_can_sign_in_after_the_window_ends(
    db: Database, accounts: Accounts
) -> None:
    owner = await accounts.owner()
    address = new_address()
    for n in range(12):
        with pytest.raises((SignInRefused, TooManyAttempts)):
            await accounts.try_sign_in(owner.email, f"guess number {n}", address=address)
    # Rejected attempts do not extend the rate window, and the cleanup does not shorten it.
    await ratelimit.delete_ended_windows(db)
    with pytest.raises(TooManyAttempts):
        await accounts.try_sign_in(owner.email, address=address)
    await db.execute(
        "UPDATE rate_window SET started_at = started_at - interval '15 minutes'"
        " WHERE bucket LIKE 'slow:sign-in:%'"
    )
    await ratelimit.delete_ended_windows(db)
    left = await db.value("SELECT count(*) FROM rate_window WHERE bucket LIKE $1", f"%{address}")
    assert left == 0
    assert isinstance(await accounts.try_sign_in(owner.email, address=address), SignedIn)


async def test_attempts_from_one_ip_are_limited_and_then_lock_no_email(
    db: Database, accounts: Accounts
) -> None:
    owner = await accounts.owner()
    with pytest.raises(SignInRefused):
        await accounts.try_sign_in(new_email(), address="2001:db8:1:2::1")
    await db.execute(
        "UPDATE rate_window SET used = 29 WHERE bucket = $1",
        "slow:sign-in:dashboard:address:2001:db8:1:2::/64",
    )
    with pytest.raises(SignInRefused):
        await accounts.try_sign_in(new_email(), address="2001:db8:1:2::beef")
    for _ in range(12):
        with pytest.raises(TooManyAttempts):
            await accounts.try_sign_in(owner.email, address="2001:db8:1:2:3::4")
    await accounts.sign_in(owner.email)


async def test_frequent_sign_ins_are_not_failures(accounts: Accounts) -> None:
    owner = await accounts.owner()
    address = new_address()
    for _ in range(12):
        assert isinstance(await accounts.try_sign_in(owner.email, address=address), SignedIn)


async def test_a_code_is_requested_only_after_the_right_password(accounts: Accounts) -> None:
    owner = await accounts.owner()
    app, _ = await accounts.turn_on_totp(owner.visitor)
    with pytest.raises(SignInRefused):
        await accounts.try_sign_in(owner.email, "a wrong password!", code_of(app))
    assert isinstance(await accounts.try_sign_in(owner.email), NeedsCode)
    with pytest.raises(CodeRefused):
        await accounts.try_sign_in(owner.email, code="000000" if code_of(app) != "000000" else "1")
    answer = await accounts.try_sign_in(owner.email, code=code_of(app))
    assert isinstance(answer, SignedIn)
    visitor = await accounts.visitor(answer.session.token)
    assert (visitor.has_totp, visitor.second_factor) == (True, True)


async def test_wrong_codes_count_like_wrong_passwords(accounts: Accounts) -> None:
    owner = await accounts.owner()
    await accounts.turn_on_totp(owner.visitor)
    for _ in range(10):
        with pytest.raises(CodeRefused):
            await accounts.try_sign_in(owner.email, code="12345")
    with pytest.raises(TooManyAttempts):
        await accounts.try_sign_in(owner.email, code="12345")
