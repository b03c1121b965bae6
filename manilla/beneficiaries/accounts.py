"""Saved payout accounts: beneficiaries that a merchant refers to by id."""

from datetime import datetime
from typing import Any

import msgspec

from manilla.audit import audit
from manilla.audit.decided import SAVED_ACCOUNTS
from manilla.beneficiaries import methods
from manilla.kit.database.connections import Connection, Database, transaction_of
from manilla.kit.fields import Fields


class SavedAccount(msgspec.Struct, frozen=True):
    id: int
    merchant_id: int
    method_code: str
    beneficiary: dict[str, Any]
    account_name: str | None
    label: str | None
    active: bool
    created_at: datetime

    @property
    def number(self) -> str:
        return number_of(self.beneficiary)

    @property
    def bank(self) -> str:
        names = methods.BANK_CODE, methods.MANUAL_BANK_NAME
        return _first(self.beneficiary, names)


FIELDS = Fields(
    SavedAccount, withdraw_account_id="id", method="method_code", account_number="number"
)

ID_MAX = 2**63 - 1

SAVED = """
    SELECT id, merchant_id, method_code, beneficiary, account_name, label, active, created_at
      FROM payout_account"""


async def add(
    db: Database | Connection,
    merchant_id: int,
    method_code: str,
    beneficiary: dict[str, str],
    *,
    account_name: str | None = None,
    label: str | None = None,
) -> int:
    async with transaction_of(db) as connection:
        account_id: int = await connection.value(
            """
            INSERT INTO payout_account (merchant_id, method_code, beneficiary, account_name, label)
            VALUES ($1, $2, $3::jsonb, $4, $5) RETURNING id""",
            *(merchant_id, method_code, msgspec.json.encode(beneficiary).decode()),
            *(account_name, label),
        )
        await audit.record(
            connection,
            "account.add",
            f"account:{account_id}",
            merchant_id=merchant_id,
            method=method_code,
            account=ending(beneficiary),
            label=label,
            destination=await SAVED_ACCOUNTS.digest_of(connection, merchant_id, account_id),
        )
    return account_id


async def find(db: Database, merchant_id: int, account_id: int) -> SavedAccount | None:
    """Returns None also if the account was changed in the database after it was saved."""
    if not 0 < account_id <= ID_MAX:
        return None
    record = await db.record(
        f"{SAVED} t WHERE merchant_id = $1 AND id = $2 AND active"
        f" AND {SAVED_ACCOUNTS.is_unchanged}",
        *(merchant_id, account_id),
    )
    return None if record is None else read(record)


async def accounts(db: Database, merchant_id: int) -> list[SavedAccount]:
    records = await db.records(SAVED + " WHERE merchant_id = $1 ORDER BY id", merchant_id)
    return [read(record) for record in records]


async def with_number(db: Database, merchant_id: int, number: str) -> list[SavedAccount]:
    """Returns the merchant's saved accounts with this account number."""
    records = await db.records(
        SAVED
        + """
         WHERE merchant_id = $1 AND active
           AND $2 IN (beneficiary ->> 'account_number', beneficiary ->> 'Account Number')
         ORDER BY id""",
        *(merchant_id, number),
    )
    return [read(record) for record in records]


async def remove(db: Database, merchant_id: int, account_id: int) -> bool:
    async with db.transaction() as connection:
        removed = await connection.value(
            """
            UPDATE payout_account SET active = false
             WHERE merchant_id = $1 AND id = $2 AND active RETURNING true""",
            *(merchant_id, account_id),
        )
        if removed:
            subject = f"account:{account_id}"
            await audit.record(connection, "account.remove", subject, merchant_id=merchant_id)
    return bool(removed)


def ending(beneficiary: dict[str, str]) -> str:
    """Returns the account number's last digits, which identify it without revealing it."""
    return f"…{number_of(beneficiary)[-4:]}"


def number_of(beneficiary: dict[str, Any]) -> str:
    return _first(beneficiary, (methods.ACCOUNT_NUMBER, methods.MANUAL_ACCOUNT_NUMBER))


def _first(beneficiary: dict[str, Any], names: tuple[str, ...]) -> str:
    return next((str(beneficiary[name]) for name in names if name in beneficiary), "")


def read(record: Any) -> SavedAccount:
    fields = dict(record)
    fields["beneficiary"] = msgspec.json.decode(fields["beneficiary"])
    return msgspec.convert(fields, SavedAccount)
