"""Each authenticator code and each recovery code works exactly once."""

import asyncio
from urllib.parse import parse_qs, unquote, urlsplit

import pyotp
import pytest

from manilla.cells.moving import fence
from manilla.kit import crypto
from manilla.kit.crypto import Keyring, SealError
from manilla.kit.database.connections import Database
from manilla.people import persons, second_factor, sessions
from manilla.people.second_factor import (
    CodeRefused,
    SecondFactorIsOn,
    SecondFactorNotBegun,
    StepUpNeeded,
)
from manilla.people.sign_in import NeedsCode, SignedIn
from manilla.settings import Settings
from tests.people.accounts import PASSWORD, Accounts, code_of


async def test_a_code_is_required_only_after_enrollment_is_confirmed(
    db: Database, accounts: Accounts
) -> None:
    owner = await accounts.owner()
    with pytest.raises(SecondFactorNotBegun):
        await second_factor.confirm(db, accounts.keyring, owner.visitor, "123456")
    begun = await second_factor.begin(db, accounts.keyring, owner.visitor, issuer="Manilla Test")
    link = urlsplit(begun.uri)
    assert (link.scheme, unquote(link.path)) == ("otpauth", f"/Manilla Test:{owner.email}")
    assert parse_qs(link.query)["secret"] == [begun.secret]
    with pytest.raises(CodeRefused):
        await second_factor.confirm(db, accounts.keyring, owner.visitor, "12345")
    await accounts.sign_in(owner.email)

    _, codes = await accounts.turn_on_totp(owner.visitor)
    assert len(set(codes)) == 10
    assert isinstance(await accounts.try_sign_in(owner.email), NeedsCode)
    assert (await accounts.visitor(owner.token)).second_factor
    with pytest.raises(SecondFactorIsOn):
        await second_factor.begin(db, accounts.keyring, owner.visitor)
    with pytest.raises(SecondFactorNotBegun):
        await second_factor.confirm(db, accounts.keyring, owner.visitor, "123456")


async def test_a_code_works_once_even_when_used_concurrently(accounts: Accounts) -> None:
    owner = await accounts.owner()
    app, _ = await accounts.turn_on_totp(owner.visitor)
    code = code_of(app)
    answers = await asyncio.gather(
        *(accounts.try_sign_in(owner.email, code=code) for _ in range(3)), return_exceptions=True
    )
    assert sorted(type(each).__name__ for each in answers) == [
        "CodeRefused",
        "CodeRefused",
        "SignedIn",
    ]
    with pytest.raises(CodeRefused):
        await sessions.step_up(accounts.db, accounts.keyring, owner.visitor, code=code)


async def test_the_code_used_for_enrollment_cannot_sign_in(
    db: Database, accounts: Accounts
) -> None:
    owner = await accounts.owner()
    begun = await second_factor.begin(db, accounts.keyring, owner.visitor)
    code = code_of(pyotp.TOTP(begun.secret))
    await second_factor.confirm(db, accounts.keyring, owner.visitor, code)
    with pytest.raises(CodeRefused):
        await accounts.try_sign_in(owner.email, code=code)


async def test_adjacent_time_steps_are_accepted_and_earlier_ones_are_not(
    accounts: Accounts,
) -> None:
    owner = await accounts.owner()
    app, _ = await accounts.turn_on_totp(owner.visitor)
    for far in (-2, 4):
        with pytest.raises(CodeRefused):
            await accounts.try_sign_in(owner.email, code=code_of(app, far))
    now, after = code_of(app), code_of(app, 1)
    assert isinstance(
        await accounts.try_sign_in(owner.email, code=f" {after[:3]} {after[3:]} "), SignedIn
    )
    with pytest.raises(CodeRefused):
        await accounts.try_sign_in(owner.email, code=now)


async def test_a_recovery_code_works_once_however_it_is_typed(
    db: Database, accounts: Accounts
) -> None:
    owner = await accounts.owner()
    _, codes = await accounts.turn_on_totp(owner.visitor)
    typed = codes[3].lower().replace("-", " ").replace("0", "o").replace("1", "l")
    answers = await asyncio.gather(
        *(accounts.try_sign_in(owner.email, code=typed) for _ in range(2)), return_exceptions=True
    )
    assert sorted(type(each).__name__ for each in answers) == ["CodeRefused", "SignedIn"]
    assert (await persons.get(db, owner.visitor.person_id)).recovery_codes_left == 9
    assert isinstance(await accounts.try_sign_in(owner.email, code=codes[0]), SignedIn)
    row = await db.value("SELECT person::text FROM person WHERE email = $1", owner.email)
    assert not any(code in row or code.replace("-", "") in row for code in codes)


async def test_new_recovery_codes_replace_the_old_ones_and_need_a_step_up(
    db: Database, accounts: Accounts
) -> None:
    owner = await accounts.owner()
    await sessions.step_up(db, accounts.keyring, owner.visitor, password=PASSWORD)
    with pytest.raises(SecondFactorNotBegun):
        await second_factor.renew_recovery(db, await accounts.visitor(owner.token))
    app, codes = await accounts.turn_on_totp(owner.visitor)
    query = "UPDATE session SET stepped_up_at = NULL WHERE person_id = $1"
    await db.execute(query, owner.visitor.person_id)
    with pytest.raises(StepUpNeeded):
        await second_factor.renew_recovery(db, await accounts.visitor(owner.token))
    await sessions.step_up(db, accounts.keyring, owner.visitor, code=code_of(app))
    newer = await second_factor.renew_recovery(db, await accounts.visitor(owner.token))
    assert (await persons.get(db, owner.visitor.person_id)).recovery_codes_left == 10
    with pytest.raises(CodeRefused):
        await accounts.try_sign_in(owner.email, code=codes[0])
    assert isinstance(await accounts.try_sign_in(owner.email, code=newer[0]), SignedIn)


async def test_turning_it_off_needs_a_step_up(db: Database, accounts: Accounts) -> None:
    owner = await accounts.owner()
    app, _ = await accounts.turn_on_totp(owner.visitor)
    with pytest.raises(StepUpNeeded):
        await second_factor.turn_off(db, await accounts.visitor(owner.token))
    await sessions.step_up(db, accounts.keyring, owner.visitor, code=code_of(app))
    await second_factor.turn_off(db, await accounts.visitor(owner.token))
    await accounts.sign_in(owner.email)
    assert (await persons.get(db, owner.visitor.person_id)).recovery_codes_left == 0
    await accounts.turn_on_totp(owner.visitor)


async def test_the_secret_is_encrypted_for_its_row_and_moves_to_a_new_master_key(
    db: Database, settings: Settings, accounts: Accounts
) -> None:
    owner, other = await accounts.owner(), await accounts.owner()
    app, _ = await accounts.turn_on_totp(owner.visitor)
    read = "SELECT totp_sealed FROM person WHERE id = $1"
    kept = await db.value(read, owner.visitor.person_id)
    assert app.secret.encode() not in kept
    with pytest.raises(SealError):
        accounts.keyring.open(kept, second_factor.totp_context(other.visitor.person_id))

    [old], new = settings.master_keys, crypto.decode_key(crypto.generate_key())
    everyones = await db.value("SELECT count(*) FROM person WHERE totp_sealed IS NOT NULL")
    assert (
        await crypto.rewrap_column(db, Keyring([new, old]), second_factor.SEALED, fence.pass_copy)
        == everyones
    )
    moved = await db.value(read, owner.visitor.person_id)
    context = second_factor.totp_context(owner.visitor.person_id)
    assert Keyring([new]).open(moved, context).decode() == app.secret
    assert (
        await crypto.rewrap_column(db, Keyring([old, new]), second_factor.SEALED, fence.pass_copy)
        == everyones
    )
    assert isinstance(await accounts.try_sign_in(owner.email, code=code_of(app)), SignedIn)
