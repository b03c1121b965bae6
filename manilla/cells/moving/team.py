"""Gives a merchant's users access in the second cell, where they may have accounts already.

Nobody verifies the email address of somebody who signs up. An account with a user's email address
may therefore belong to somebody else, and gets access only if it is a copy of the user's account.
"""

from collections.abc import Mapping
from typing import Any

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Connection, Database
from manilla.merchants import merchants
from manilla.people import invitations, queries
from manilla.people.roles import Role
from manilla.people.second_factor import totp_context

# The columns of a user that a new user in the second cell gets. `totp_sealed` is encrypted again,
# because it is bound to the user's number.
_PERSON = (
    *("realm", "email", "name", "phone", "password_hash", "status", "totp_confirmed_at"),
    *("totp_last_step", "recovery_hashes", "list_columns", "created_at"),
)
# A copy of an account has the same values, until the user changes them in one of the cells.
_COMPARED = ("password_hash", "status", "recovery_hashes")

_Row = Mapping[str, Any]


async def taken_emails(
    source: Database, target: Database, keyring: Keyring, merchant_id: int
) -> list[str]:
    """Returns the members whom `copy` would invite, because another account has their address."""
    taken = []
    async with target.read_only() as connection:
        for member in await _members(source, merchant_id):
            account = await _account(connection, member)
            if account is None or _is_copy(keyring, member, account) or _is_unused(account):
                continue
            if member["status"] == "active":
                taken.append(member["email"])
    return taken


async def copy(source: Database, target: Connection, keyring: Keyring, merchant_id: int) -> None:
    """Makes the merchant's users members in the second cell, or invites them.

    Decides again who is invited, because people can sign up in the second cell after the check.
    """
    members = await _members(source, merchant_id)
    await target.execute("DELETE FROM membership WHERE merchant_id = $1", merchant_id)
    numbers, others = {}, []
    for member in members:
        number, is_theirs = await _find_or_add(target, keyring, member)
        numbers[member["id"]] = number
        if not is_theirs:
            others.append(member)
            continue
        await target.execute(
            "INSERT INTO membership (merchant_id, person_id, role, created_at, approves_from)"
            " VALUES ($1, $2, $3, $4, $5)",
            *(merchant_id, number, member["role"], member["since"], member["approves_from"]),
        )
    # Whoever asked for an approval must not approve it, so the request must name the same user. An
    # invited user could join with the account that has their email address.
    await target.execute(
        """
        UPDATE payout_batch SET asked_by_id = coalesce(
               (SELECT new FROM unnest($2::bigint[], $3::bigint[]) AS number (old, new)
                 WHERE old = asked_by_id), 0)
         WHERE merchant_id = $1 AND asked_by_id IS NOT NULL AND status = 'asked'""",
        *(merchant_id, list(numbers), list(numbers.values())),
    )
    merchant = await merchants.get(target, merchant_id)
    for member in others:
        if member["status"] == "active":
            await invitations.invite_member(
                *(target, keyring, None, merchant), member["email"], Role(member["role"])
            )


async def _members(source: Database, merchant_id: int) -> list[Any]:
    return await source.records(
        f"""
        SELECT p.id, p.totp_sealed, m.role, m.created_at AS since, m.approves_from,
               {", ".join(f"p.{name}" for name in _PERSON)}
          FROM membership m JOIN person p ON p.id = m.person_id
         WHERE m.merchant_id = $1 ORDER BY p.email""",
        merchant_id,
    )


async def _account(target: Connection, member: _Row) -> _Row | None:
    """Returns the account in the second cell that has the member's email address."""
    found: _Row | None = await target.record(
        f"""
        SELECT id, totp_sealed, totp_confirmed_at, {", ".join(_COMPARED)},
               EXISTS (SELECT FROM membership WHERE person_id = person.id) AS has_merchant
          FROM person WHERE realm = $1 AND email = $2""",
        *(member["realm"], member["email"]),
    )
    return found


def _is_copy(keyring: Keyring, member: _Row, account: _Row) -> bool:
    """Returns whether both accounts have the same sign-in secrets.

    Password hashes are salted, so somebody who chooses the same password has another hash.
    """
    return (
        member["password_hash"] is not None
        and all(member[name] == account[name] for name in _COMPARED)
        and _totp_secret(keyring, member) == _totp_secret(keyring, account)
    )


def _totp_secret(keyring: Keyring, person: _Row) -> bytes | None:
    if person["totp_confirmed_at"] is None:
        return None
    return keyring.open(person["totp_sealed"], totp_context(person["id"]))


def _is_unused(account: _Row) -> bool:
    """Returns whether nothing depends on the account, for example after its merchant has moved."""
    return not account["has_merchant"] and account["status"] == "active"


async def _find_or_add(target: Connection, keyring: Keyring, member: _Row) -> tuple[int, bool]:
    """Returns the number of the account with the member's email address, and if it is theirs."""
    added = await _add(target, keyring, member)
    if added is not None:
        return added, True
    # The lock stops the account from joining a merchant while this transaction decides.
    await target.execute(
        "SELECT FROM person WHERE realm = $1 AND email = $2 FOR UPDATE",
        *(member["realm"], member["email"]),
    )
    account = await _account(target, member)
    assert account is not None
    if _is_copy(keyring, member, account):
        return account["id"], True
    if not _is_unused(account):
        return account["id"], False
    # A new row, so that no request in progress for the old account changes the new account.
    await queries.delete_person(target, account["id"])
    added = await _add(target, keyring, member)
    assert added is not None
    return added, True


async def _add(target: Connection, keyring: Keyring, person: _Row) -> int | None:
    """Copies the user's account. Returns None if the email address has an account already."""
    sealed = person["totp_sealed"]
    number = await target.number("SELECT nextval(pg_get_serial_sequence('person', 'id'))")
    totp = (
        None
        if sealed is None
        else keyring.seal(keyring.open(sealed, totp_context(person["id"])), totp_context(number))
    )
    places = ", ".join(f"${n}" for n in range(1, len(_PERSON) + 3))
    added: int | None = await target.value(
        f"INSERT INTO person ({', '.join(_PERSON)}, id, totp_sealed) OVERRIDING SYSTEM VALUE"
        f" VALUES ({places}) ON CONFLICT (realm, email) DO NOTHING RETURNING id",
        *(person[name] for name in _PERSON),
        *(number, totp),
    )
    return added
