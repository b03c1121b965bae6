"""Settlement accounts: the merchant's own account in each currency, for automatic settlements.

Anyone who can change this account can divert the merchant's balance. Therefore a change takes
effect only after a waiting time, and the owners are notified and can cancel it. If the merchant's
payouts are protected, the first account waits too. Settlements above the threshold then need a
second person until another person has approved the account and it has been in effect for the
waiting time.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from manilla.audit import audit
from manilla.audit.decided import SETTLEMENT_ACCOUNTS
from manilla.beneficiaries import accounts
from manilla.beneficiaries.beneficiary import Beneficiary
from manilla.kit.clock import LAGOS
from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.rows import columns
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.ledger.scope import Tenant
from manilla.mail import outbox
from manilla.mail.kinds import MailKind
from manilla.methods.method import Method
from manilla.payouts.protection import protection
from manilla.people import second_person
from manilla.people.second_person import Decider


class SettlementAccount(msgspec.Struct, frozen=True):
    merchant_id: int
    id: int
    environment: Environment
    currency: str
    method_code: str
    beneficiary: dict[str, str]
    bank_name: str
    account_name: str  # the account holder's name, resolved by the rail
    verified_at: datetime
    set_by: str
    created_at: datetime
    effective_at: datetime
    approved_by: str | None
    approved_at: datetime | None

    @property
    def number(self) -> str:
        return accounts.number_of(self.beneficiary)

    def is_trusted(self, wait: timedelta) -> bool:
        """Whether any amount may be settled to this account without a second person's approval."""
        is_approved = self.approved_at is not None
        return is_approved and self.effective_at + wait <= datetime.now(UTC)


class NewSettlementAccount(msgspec.Struct, frozen=True):
    """An account whose holder's name a rail has resolved and a user has confirmed."""

    method: Method
    who: Beneficiary
    bank_name: str
    account_name: str


class SettlementAccountUnchanged(Refusal):
    status, code = 409, "SETTLEMENT_ACCOUNT_UNCHANGED"
    message = "This is already your settlement account."


class SettlementAccountNotFound(Refusal):
    status, code = 404, "SETTLEMENT_ACCOUNT_NOT_FOUND"
    message = "This settlement account was replaced or canceled."


class SameAccountSetter(Refusal):
    status, code = 403, "SAME_PERSON"
    message = "You set this account, so another person must approve it."


ACCOUNT = f"""
    SELECT {columns(SettlementAccount)} FROM settlement_account
     WHERE merchant_id = $1 AND canceled_at IS NULL"""
IN_EFFECT = ACCOUNT + " AND environment = $2 AND currency = $3 AND effective_at <= now()"
WAITING = ACCOUNT + " AND environment = $2 AND currency = $3 AND effective_at > now()"
NUMBERED = ACCOUNT + " AND environment = $2 AND id = $3"
NEWEST = " ORDER BY id DESC LIMIT 1"


async def settlement_account(
    db: Database | Connection, merchant_id: int, environment: Environment, currency: str
) -> SettlementAccount | None:
    """Returns the merchant's current settlement account in this currency."""
    return await _one(db, IN_EFFECT, Tenant(merchant_id, environment), currency)


async def is_as_set(db: Database, account: SettlementAccount) -> bool:
    """Returns False if the account was changed in the database after a user has set it."""
    return await SETTLEMENT_ACCOUNTS.check(db, account.merchant_id, account.id)


async def find(
    db: Database | Connection, tenant: Tenant, account_id: int
) -> SettlementAccount | None:
    """Returns a settlement account that was not canceled, even if it has been replaced."""
    return await _one(db, NUMBERED, tenant, account_id)


async def waiting(
    db: Database | Connection, tenant: Tenant, currency: str
) -> SettlementAccount | None:
    """Returns the settlement account that will take effect later, or None."""
    return await _one(db, WAITING, tenant, currency)


async def set_since(db: Database, merchant_id: int, start: datetime) -> list[SettlementAccount]:
    """Returns the settlement accounts that were set since this time, newest first."""
    query = ACCOUNT + " AND created_at >= $2 ORDER BY id DESC LIMIT 5"
    return [_read(record) for record in await db.records(query, merchant_id, start)]


async def choose(
    db: Database,
    tenant: Tenant,
    new: NewSettlementAccount,
    *,
    by: str,
    wait: timedelta,
) -> SettlementAccount:
    """Sets the settlement account. Replaces an account that has not taken effect yet.

    The new account also waits, unless it is the first account of a merchant whose payouts are not
    protected.
    """
    currency = new.method.currency
    async with db.transaction() as connection:
        await _lock(connection, tenant.merchant_id)
        before = await settlement_account(
            connection, tenant.merchant_id, tenant.environment, currency
        )
        if before is not None and _is_same(before, new):
            raise SettlementAccountUnchanged
        await _cancel_waiting(connection, tenant, currency)
        waits = before is not None or await protection.is_on(connection, tenant.merchant_id)
        chosen = await _insert(connection, tenant, new, by, wait if waits else timedelta())
        await _record(connection, "settlement_account.set", chosen, before)
        await _tell_owners(connection, chosen)
    return chosen


async def approve(db: Database, tenant: Tenant, account_id: int, *, by: Decider) -> None:
    """Approves a settlement account that another person has set. Repeated calls have no effect."""
    async with db.transaction() as connection:
        await _lock(connection, tenant.merchant_id)
        found = await check_approval(connection, tenant, account_id, by=by)
        if found.approved_at is not None:
            return
        await connection.execute(
            """
            UPDATE settlement_account SET approved_by = $3, approved_at = now()
             WHERE merchant_id = $1 AND id = $2""",
            *(tenant.merchant_id, account_id, by.email),
        )
        await _record(connection, "settlement_account.approve", found, None)


async def check_approval(
    db: Database | Connection, tenant: Tenant, account_id: int, *, by: Decider
) -> SettlementAccount:
    """Returns the account, or raises an error if this person cannot approve it now."""
    found = await find(db, tenant, account_id)
    if found is None:
        raise SettlementAccountNotFound
    if found.set_by == by.email:
        raise SameAccountSetter
    if found.approved_at is None and tenant.environment is Environment.PRODUCTION:
        await second_person.check_approver(db, tenant.merchant_id, by.person_id)
    return found


async def cancel(db: Database, tenant: Tenant, currency: str) -> SettlementAccount | None:
    """Cancels and returns the account that has not taken effect yet, or returns None."""
    async with db.transaction() as connection:
        await _lock(connection, tenant.merchant_id)
        found = await waiting(connection, tenant, currency)
        if found is not None:
            await _cancel_waiting(connection, tenant, currency)
            await _record(connection, "settlement_account.cancel", found, None)
    return found


async def _lock(connection: Connection, merchant_id: int) -> None:
    """Lets only one user change the merchant's accounts at a time."""
    await connection.execute("SELECT FROM merchant WHERE id = $1 FOR NO KEY UPDATE", merchant_id)


async def _cancel_waiting(connection: Connection, tenant: Tenant, currency: str) -> None:
    await connection.execute(
        """
        UPDATE settlement_account SET canceled_at = now()
         WHERE merchant_id = $1 AND environment = $2 AND currency = $3
           AND canceled_at IS NULL AND effective_at > now()""",
        *(tenant.merchant_id, tenant.environment, currency),
    )


async def _insert(
    connection: Connection, tenant: Tenant, new: NewSettlementAccount, by: str, wait: timedelta
) -> SettlementAccount:
    record = await connection.record(
        f"""
        INSERT INTO settlement_account (merchant_id, environment, currency, method_code,
               beneficiary, bank_name, account_name, set_by, effective_at)
        VALUES ($1, $2, $3, $4, $5::jsonb, $6, $7, $8, now() + $9::interval)
        RETURNING {columns(SettlementAccount)}""",
        *(tenant.merchant_id, tenant.environment, new.method.currency, new.method.code),
        msgspec.json.encode(new.who.fields).decode(),
        *(new.bank_name, new.account_name, by, wait),
    )
    return _read(record)


async def _record(
    connection: Connection,
    action: str,
    account: SettlementAccount,
    before: SettlementAccount | None,
) -> None:
    await audit.record(
        connection,
        action,
        f"settlement_account:{account.id}",
        merchant_id=account.merchant_id,
        environment=account.environment,
        currency=account.currency,
        account=_describe(account),
        before=_describe(before) if before else None,
        effective_at=account.effective_at,
        destination=await SETTLEMENT_ACCOUNTS.digest_of(
            connection, account.merchant_id, account.id
        ),
    )


async def _tell_owners(connection: Connection, account: SettlementAccount) -> None:
    if account.environment is not Environment.PRODUCTION:
        return
    effective = account.effective_at.astimezone(LAGOS)
    await outbox.put(
        connection,
        MailKind.SETTLEMENT_ACCOUNT,
        {
            "by": account.set_by,
            "account": _describe(account),
            "effective": f"{effective:%d %b %Y %H:%M} (Africa/Lagos)",
        },
        path=f"/dashboard/{account.environment}/settlement-account",
        merchant_id=account.merchant_id,
    )


def _describe(account: SettlementAccount) -> str:
    return f"{account.account_name}, {account.bank_name} {accounts.ending(account.beneficiary)}"


def _is_same(known: SettlementAccount, new: NewSettlementAccount) -> bool:
    return (known.method_code, known.beneficiary) == (new.method.code, new.who.fields)


async def _one(
    db: Database | Connection, query: str, tenant: Tenant, key: str | int
) -> SettlementAccount | None:
    about = tenant.merchant_id, tenant.environment, key
    record = await db.record(query + NEWEST, *about)
    return None if record is None else _read(record)


def _read(record: Any) -> SettlementAccount:
    fields = dict(record)
    fields["beneficiary"] = msgspec.json.decode(fields["beneficiary"])
    return msgspec.convert(fields, SettlementAccount)
