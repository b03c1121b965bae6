"""Saved payout accounts: beneficiaries that a merchant names by a number."""

from datetime import datetime
from typing import Any

import msgspec

from manilla.kit.db import Connection, Database


class SavedAccount(msgspec.Struct, frozen=True):
    id: int
    merchant_id: int
    method_code: str
    beneficiary: dict[str, Any]
    account_name: str | None
    label: str | None
    active: bool
    created_at: datetime


ID_MAX = 2**63 - 1

_SAVED = """
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
    account_id: int = await db.value(
        """
        INSERT INTO payout_account (merchant_id, method_code, beneficiary, account_name, label)
        VALUES ($1, $2, $3::jsonb, $4, $5) RETURNING id""",
        *(merchant_id, method_code, msgspec.json.encode(beneficiary).decode()),
        *(account_name, label),
    )
    return account_id


async def find(db: Database, merchant_id: int, account_id: int) -> SavedAccount | None:
    if not 0 < account_id <= ID_MAX:
        return None
    record = await db.record(
        _SAVED + " WHERE merchant_id = $1 AND id = $2 AND active", merchant_id, account_id
    )
    return None if record is None else _read(record)


async def accounts(db: Database, merchant_id: int) -> list[SavedAccount]:
    records = await db.records(_SAVED + " WHERE merchant_id = $1 ORDER BY id", merchant_id)
    return [_read(record) for record in records]


async def remove(db: Database, merchant_id: int, account_id: int) -> bool:
    removed = await db.value(
        """
        UPDATE payout_account SET active = false
         WHERE merchant_id = $1 AND id = $2 AND active RETURNING true""",
        *(merchant_id, account_id),
    )
    return bool(removed)


def _read(record: Any) -> SavedAccount:
    fields = dict(record)
    fields["beneficiary"] = msgspec.json.decode(fields["beneficiary"])
    return msgspec.convert(fields, SavedAccount)
