"""Changes the status of customers' accounts, and notifies the merchants."""

from manilla.cases import cases
from manilla.cases.cases import CaseKind
from manilla.customers import account_store, store
from manilla.customers.account import NEXT, AccountStatus, CustomerAccount
from manilla.customers.fields import describe_account_notice
from manilla.kit.database.connections import Connection, Database
from manilla.notify import outbox
from manilla.notify.events.kinds import event_type_of
from manilla.providers.port import AccountState, RefusalCode, ReportedAccountStatus

EVENT = "account"
NUMBER_REUSED = AccountState(
    status=ReportedAccountStatus.CLOSED, reason="The provider gave the number to another customer."
)


async def apply(
    db: Database,
    account: CustomerAccount,
    status: AccountStatus,
    state: AccountState,
    code: str = "",
) -> CustomerAccount:
    """Changes the account's status, unless it was changed in the meantime."""
    async with db.transaction() as connection:
        current = await account_store.account(
            connection, account.merchant_id, account.id, lock=True
        )
        assert current is not None
        if status not in NEXT[current.status]:
            return current
        if status is AccountStatus.ACTIVE:
            await _take_number(connection, current, state)
        changed = await _change(connection, current, status, state, code)
        await cases.close(
            *(connection, account.merchant_id, CaseKind.ACCOUNT_NOT_CREATED, account.id),
            f"The account is {status}.",
        )
    return changed


async def _take_number(
    connection: Connection, account: CustomerAccount, state: AccountState
) -> None:
    """Closes earlier accounts with this number. Their customers get no later transfer."""
    for other in await account_store.with_number(
        connection, account.provider, state.account_number
    ):
        if await account_store.lives_elsewhere(connection, other):
            continue
        key = other.merchant_id, other.id
        current = await account_store.account(connection, *key, lock=True)
        if current is not None and current.status is AccountStatus.ACTIVE:
            await _change(connection, current, AccountStatus.CLOSED, NUMBER_REUSED)


async def _change(
    connection: Connection,
    before: CustomerAccount,
    status: AccountStatus,
    state: AccountState,
    code: str = "",
) -> CustomerAccount:
    is_failure = status is AccountStatus.FAILED
    error_code = (code or RefusalCode.ACCOUNT_DETAILS_REJECTED) if is_failure else None
    after = await account_store.change_status(connection, before, status, state, error_code)
    customer = await store.customer(connection, after.merchant_id, after.customer_id)
    assert customer is not None
    await outbox.enqueue(
        connection,
        merchant_id=after.merchant_id,
        environment=after.environment,
        trx_id=after.id,
        url="",
        payload=describe_account_notice(after, customer),
        event=EVENT,
        type=event_type_of(EVENT, status),
        status=status,
    )
    return after


async def leave_to_administrator(db: Database, account: CustomerAccount, detail: str) -> None:
    """Opens a case. The job continues to ask, but never requests a second account."""
    await cases.open_case(
        *(db, CaseKind.ACCOUNT_NOT_CREATED, account.id, detail),
        merchant_id=account.merchant_id,
        environment=account.environment,
        provider=account.provider,
    )
