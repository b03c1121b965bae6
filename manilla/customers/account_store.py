"""SQL queries for customers' accounts, and for the transfers into them."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from manilla.customers import store
from manilla.customers.account import AccountNotFound, AccountStatus, CustomerAccount
from manilla.customers.customer import CustomerRow
from manilla.kit.database.connections import Connection
from manilla.kit.database.rows import RowSource, columns
from manilla.ledger.scope import Tenant
from manilla.ledger.trx_ids import ACCOUNT_IDS
from manilla.providers.port import AccountState

COLUMNS = columns(CustomerAccount)
_ACCOUNT = f"SELECT {COLUMNS} FROM customer_account"


class ProviderAccounts(msgspec.Struct, frozen=True):
    provider: str
    pending: int
    active: int
    failed: int
    closed: int
    last_error: str | None
    last_failed_at: datetime | None

    @property
    def numbers(self) -> int:
        """The accounts that have or had a number."""
        return self.active + self.closed


async def account(
    db: RowSource, merchant_id: int, account_id: str, *, lock: bool = False
) -> CustomerAccount | None:
    return await db.row(
        CustomerAccount,
        _ACCOUNT + " WHERE merchant_id = $1 AND id = $2" + (" FOR NO KEY UPDATE" if lock else ""),
        *(merchant_id, account_id),
    )


async def of_customer(
    db: RowSource, customer: CustomerRow, account_id: str, *, lock: bool = False
) -> CustomerAccount:
    """Returns the account. One of another customer is unknown."""
    found = await account(db, customer.merchant_id, account_id, lock=lock)
    if found is None or found.customer_id != customer.id:
        raise AccountNotFound
    return found


async def accounts_of(
    db: RowSource, merchant_id: int, customer_ids: Sequence[str]
) -> list[CustomerAccount]:
    """Returns the accounts of these customers, oldest first."""
    return await db.rows(
        CustomerAccount,
        _ACCOUNT + " WHERE merchant_id = $1 AND customer_id = ANY ($2::text[]) ORDER BY id",
        *(merchant_id, list(customer_ids)),
    )


async def shown_to_payers(
    db: RowSource, tenant: Tenant, reference: str, currency: str
) -> list[CustomerAccount]:
    """Returns the accounts that credit transfers to this customer now."""
    customer = await store.find(db, tenant, reference)
    if customer is None or customer.disabled_at is not None:
        return []
    found = await accounts_of(db, customer.merchant_id, [customer.id])
    return [
        each
        for each in found
        if each.status is AccountStatus.ACTIVE
        and each.closing_at is None
        and each.currency == currency
    ]


async def with_number(db: RowSource, provider: str, number: str) -> list[CustomerAccount]:
    """Returns the accounts that have or had this number at the provider, newest first."""
    return await db.rows(
        CustomerAccount,
        _ACCOUNT + " WHERE account_number = $2 AND provider = $1 ORDER BY activated_at DESC, id",
        *(provider, number),
    )


async def lives_elsewhere(db: RowSource, account_: CustomerAccount) -> bool:
    """Whether the merchant has moved to another cell. Its rows here are a copy."""
    found = await db.record("SELECT lives_elsewhere($1) AS is_so", account_.merchant_id)
    return found is not None and bool(found["is_so"])


async def insert(
    connection: Connection,
    customer: CustomerRow,
    method_code: str,
    provider: str,
    currency: str,
    ipn_url: str,
    email_domain: str,
    split: str | None = None,
) -> CustomerAccount:
    account_id = ACCOUNT_IDS.new(customer.merchant_id)
    created = await connection.row(
        CustomerAccount,
        f"""
        INSERT INTO customer_account (merchant_id, id, environment, customer_id, method_code,
                                      provider, currency, ipn_url, email, split)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
        RETURNING {COLUMNS}""",
        *(customer.merchant_id, account_id, customer.environment, customer.id, method_code),
        *(provider, currency, ipn_url, f"{account_id.lower()}@{email_domain}", split),
    )
    assert created is not None
    return created


async def set_split(
    connection: Connection, wanted: CustomerAccount, split: str | None
) -> CustomerAccount:
    """Changes how later transfers are divided. The caller has locked the customer."""
    changed = await connection.row(
        CustomerAccount,
        f"""
        UPDATE customer_account SET split = $3, updated_at = now()
         WHERE merchant_id = $1 AND id = $2 RETURNING {COLUMNS}""",
        *(wanted.merchant_id, wanted.id, split),
    )
    assert changed is not None
    return changed


async def mark_sent(connection: Connection, wanted: CustomerAccount) -> None:
    await connection.execute(
        """
        UPDATE customer_account SET sent_at = coalesce(sent_at, now()), updated_at = now()
         WHERE merchant_id = $1 AND id = $2""",
        *(wanted.merchant_id, wanted.id),
    )


async def unmark_sent(db: Connection, wanted: CustomerAccount) -> None:
    """Allows the account to be requested again, because it certainly was not created."""
    await db.execute(
        """
        UPDATE customer_account SET sent_at = NULL, updated_at = now()
         WHERE merchant_id = $1 AND id = $2 AND status = 'pending'""",
        *(wanted.merchant_id, wanted.id),
    )


async def mark_closing(connection: Connection, wanted: CustomerAccount) -> None:
    await connection.execute(
        """
        UPDATE customer_account SET closing_at = coalesce(closing_at, now()), updated_at = now()
         WHERE merchant_id = $1 AND id = $2""",
        *(wanted.merchant_id, wanted.id),
    )


async def change_status(
    connection: Connection,
    before: CustomerAccount,
    status: AccountStatus,
    state: AccountState,
    error_code: str | None = None,
) -> CustomerAccount:
    """Writes the status and what the provider reported. The caller has locked the row."""
    changed = await connection.row(
        CustomerAccount,
        f"""
        UPDATE customer_account
           SET status = $3, bank_name = coalesce(nullif($4, ''), bank_name),
               bank_code = coalesce(nullif($5, ''), bank_code),
               account_number = coalesce(nullif($6, ''), account_number),
               account_name = coalesce(nullif($7, ''), account_name),
               provider_reference = coalesce($8, provider_reference),
               holder = coalesce($9, holder), error_code = $10, error = $11,
               activated_at = CASE WHEN $3 = 'active' THEN now() ELSE activated_at END,
               closed_at = CASE WHEN $3 = 'closed' THEN now() END, updated_at = now()
         WHERE merchant_id = $1 AND id = $2
        RETURNING {COLUMNS}""",
        *(before.merchant_id, before.id, status, state.bank_name, state.bank_code),
        *(state.account_number, state.account_name, state.provider_reference, state.holder),
        *(error_code, None if error_code is None else state.reason),
    )
    assert changed is not None
    return changed


async def add_transfer(
    connection: Connection, to: CustomerAccount, provider: str, reference: str, trx_id: str
) -> None:
    """Records a transfer. Its key makes a second credit of the same transfer impossible."""
    await connection.execute(
        """
        INSERT INTO account_transfer (merchant_id, provider, reference, account_id, trx_id)
        VALUES ($1, $2, $3, $4, $5)""",
        *(to.merchant_id, provider, reference, to.id, trx_id),
    )


async def find_transfer(
    connection: Connection, provider: str, reference: str
) -> tuple[int, str] | None:
    """Returns the merchant and the payment of a transfer that was received before.

    Until the transaction ends, no other one can look for the same transfer. A number can change
    hands between two reports, so the key of each merchant alone could not prevent two credits.
    """
    await connection.execute(
        "SELECT pg_advisory_xact_lock(hashtextextended($1, 51))", f"{provider}:{reference}"
    )
    record = await connection.record(
        "SELECT merchant_id, trx_id FROM account_transfer WHERE reference = $2 AND provider = $1",
        *(provider, reference),
    )
    return None if record is None else (record["merchant_id"], record["trx_id"])


async def erase_names(connection: Connection, customer: CustomerRow) -> None:
    await connection.execute(
        """
        UPDATE customer_account SET account_name = NULL, ipn_url = '', updated_at = now()
         WHERE merchant_id = $1 AND customer_id = $2""",
        *(customer.merchant_id, customer.id),
    )


async def at_providers(db: RowSource) -> list[ProviderAccounts]:
    """Counts the accounts at each provider, for administrators."""
    return await db.rows(
        ProviderAccounts,
        """
        SELECT provider, count(*) FILTER (WHERE status = 'pending') AS pending,
               count(*) FILTER (WHERE status = 'active') AS active,
               count(*) FILTER (WHERE status = 'failed') AS failed,
               count(*) FILTER (WHERE status = 'closed') AS closed,
               (array_agg(error ORDER BY updated_at DESC)
                   FILTER (WHERE status = 'failed'))[1] AS last_error,
               max(updated_at) FILTER (WHERE status = 'failed') AS last_failed_at
          FROM customer_account GROUP BY provider ORDER BY provider""",
    )


async def last_failures(db: RowSource, at_most: int) -> list[CustomerAccount]:
    """Returns the accounts that failed last, for administrators."""
    return await db.rows(
        CustomerAccount,
        f"{_ACCOUNT} WHERE status = 'failed' ORDER BY updated_at DESC LIMIT {at_most}",
    )
