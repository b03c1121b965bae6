"""Jobs of customers' accounts: creating and closing them, and looking for transfers."""

from datetime import UTC, datetime, timedelta

from manilla.customers import account_states, account_store, store
from manilla.customers.account import AccountStatus, CustomerAccount
from manilla.customers.receiving import Receiving
from manilla.job_kinds import JobKind
from manilla.kit import crash, jobs
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.ids import random_base32
from manilla.kit.jobs import Job, Work
from manilla.providers import claims
from manilla.providers.port import (
    AccountDesk,
    AccountOrder,
    AccountState,
    Done,
    RefusalCode,
    Refused,
    ReportedAccountStatus,
    ReportedChargeStatus,
    Unknown,
    WebhookSubject,
)
from manilla.providers.rails import Rails

CONCURRENCY = 8
RETRY_SECONDS = 30.0
LOOKUP_SECONDS = 3600.0
# Webhooks report transfers at once. Polling finds those whose webhooks were lost.
POLL_SECONDS = 6 * 3600.0
LOOK_BACK = timedelta(days=3)
# People have saved the number of a closed account, and some providers cannot close it.
CLOSED_POLL_SECONDS = 24 * 3600.0
CLOSED_POLLED_FOR = timedelta(days=90)
PENDING_MAX = timedelta(days=1)
PAGES_MAX = 100
ATTEMPTS_MAX = 20
SANDBOX_BANK, SANDBOX_BANK_CODE = "Sandbox Bank", "000"
# A test customer with this BVN fails verification.
SANDBOX_FAILING_BVN = "00000000000"
NAMES = {"phone": "phone number", "bvn": "BVN", "nin": "NIN"}
NOT_VERIFIED = (
    "The provider could not verify the customer. Compare the name, the phone number and the BVN "
    "with the bank's, update the customer, and request another account."
)


class AccountTasks:
    def __init__(self, db: Database, keyring: Keyring, rails: Rails, receiving: Receiving) -> None:
        self._db = db
        self._keyring = keyring
        self._rails = rails
        self._receiving = receiving

    def job_handlers(self) -> dict[str, Work]:
        return {
            JobKind.ACCOUNT: Work(self.advance, concurrency=CONCURRENCY),
            JobKind.ACCOUNT_TRANSFER: Work(self.receive, concurrency=CONCURRENCY),
        }

    async def receive(self, job: Job) -> float | None:
        """Queries a transfer that a webhook or a statement names, as `ACCOUNT:REFERENCE`."""
        provider, _, reference = job.subject.partition(":")
        adapter = self._rails.adapter(provider)
        api = None if adapter is None else adapter.accounts
        if api is None:
            return RETRY_SECONDS
        match await api.transfer(reference):
            case Done(transfer) if transfer.status is ReportedChargeStatus.NOT_FOUND:
                # The provider may not show a new transfer yet. Later, polling finds it.
                return RETRY_SECONDS if job.attempts < ATTEMPTS_MAX else None
            case Done(transfer):
                await self._receiving.report(provider, transfer)
                return RETRY_SECONDS if transfer.status is ReportedChargeStatus.PENDING else None
            case Refused():
                return None
        return RETRY_SECONDS

    async def advance(self, job: Job) -> float | None:
        """Performs the account's next step at the provider."""
        account = await account_store.account(self._db, job.merchant_id, job.subject)
        if account is None or account.status is AccountStatus.FAILED:
            return None
        if account.is_sandbox:
            return await self._advance_in_sandbox(account)
        adapter = self._rails.adapter(account.provider)
        api = None if adapter is None else adapter.accounts
        if api is None:
            return RETRY_SECONDS
        if account.status is AccountStatus.PENDING and account.closing_at is None:
            return await (self._ask if account.sent_at else self._send)(job, account, api)
        if account.status is AccountStatus.CLOSED:
            return await self._poll_closed(account, api)
        return await (self._poll if account.closing_at is None else self._close)(account, api)

    # Creating an account.

    async def _send(self, job: Job, account: CustomerAccount, api: AccountDesk) -> float | None:
        """Requests the account. Its outcome is unknown from before the request until a response."""
        order = await self._order(account, api)
        missing = [NAMES[name] for name in sorted(api.needs) if getattr(order, name) is None]
        if missing:
            reason = f"The provider needs the customer's {', '.join(missing)}. Update the customer."
            return await self._fail(account, RefusalCode.ACCOUNT_DETAILS_REJECTED, reason)
        async with self._db.transaction() as connection:
            if not await jobs.is_held(connection, job):
                return None
            await account_store.mark_sent(connection, account)
        crash.point("before_account_request")
        answer = await api.create(order)
        crash.point("after_account_request")
        match answer:
            case Done(state):
                return await self._apply(account, state)
            case Refused(code, guidance):
                return await self._fail(account, code, guidance)
            case Unknown(never_sent=True):
                async with self._db.transaction() as connection:
                    await account_store.unmark_sent(connection, account)
        return RETRY_SECONDS

    async def _order(self, account: CustomerAccount, api: AccountDesk) -> AccountOrder:
        customer = await store.customer(self._db, account.merchant_id, account.customer_id)
        assert customer is not None
        numbers = customer.personal_numbers(self._keyring)
        return AccountOrder(
            reference=account.id,
            customer_name=customer.name,
            customer_email=account.email,
            currency=account.currency,
            phone=customer.phone,
            bvn=numbers.bvn if "bvn" in api.uses else None,
            nin=numbers.nin if "nin" in api.uses else None,
        )

    async def _ask(self, job: Job, account: CustomerAccount, api: AccountDesk) -> float | None:
        """Queries an account that was requested, because the response was lost or not final."""
        answer = await api.state(account.known)
        if isinstance(answer, Unknown) and not answer.needs_lookup:
            return RETRY_SECONDS
        if isinstance(answer, Done):
            state = answer.value
            is_open = state.status in (
                ReportedAccountStatus.PENDING,
                ReportedAccountStatus.NOT_FOUND,
            )
            if is_open and await self._has_failed(account):
                code = RefusalCode.ACCOUNT_DETAILS_REJECTED
                return await self._fail(account, code, NOT_VERIFIED)
            assert account.sent_at is not None
            is_overdue = datetime.now(UTC) - account.sent_at > PENDING_MAX
            if state.status is not ReportedAccountStatus.NOT_FOUND and not (is_open and is_overdue):
                return await self._apply(account, state)
            if state.status is ReportedAccountStatus.NOT_FOUND and api.can_repeat:
                async with self._db.transaction() as connection:
                    await account_store.unmark_sent(connection, account)
                return 0
        detail = (
            f"{account.provider} has not reported whether it has created this account. Look it up "
            "there. The account is not requested again."
        )
        await account_states.leave_to_administrator(self._db, account, detail)
        return LOOKUP_SECONDS

    async def _has_failed(self, account: CustomerAccount) -> bool:
        """Whether the provider's latest signed webhook says that the account was not created."""
        said = await claims.claims_of(
            *(self._db, WebhookSubject.ACCOUNT, account.merchant_id),
            *(account.id, account.provider),
        )
        return bool(said) and said[-1].status == ReportedAccountStatus.FAILED

    async def _apply(self, account: CustomerAccount, state: AccountState) -> float | None:
        match state.status:
            case ReportedAccountStatus.ACTIVE:
                await account_states.apply(self._db, account, AccountStatus.ACTIVE, state)
                return POLL_SECONDS
            case ReportedAccountStatus.FAILED:
                code = RefusalCode.ACCOUNT_DETAILS_REJECTED
                return await self._fail(account, code, state.reason or NOT_VERIFIED)
            case ReportedAccountStatus.CLOSED:
                await account_states.apply(self._db, account, AccountStatus.CLOSED, state)
                return CLOSED_POLL_SECONDS
        return RETRY_SECONDS

    async def _fail(self, account: CustomerAccount, code: RefusalCode, reason: str) -> float | None:
        state = AccountState(status=ReportedAccountStatus.FAILED, reason=reason)
        await account_states.apply(self._db, account, AccountStatus.FAILED, state, code)
        return None

    # An active account.

    async def _poll(self, account: CustomerAccount, api: AccountDesk) -> float:
        """Reports the transfers of the last days. Most of them were received before."""
        since, start = datetime.now(UTC) - LOOK_BACK, None
        for _ in range(PAGES_MAX):
            answer = await api.transfers(account.known, since, start)
            if isinstance(answer, Refused):
                break
            if isinstance(answer, Unknown):
                return RETRY_SECONDS
            for transfer in answer.value.transfers:
                await self._receiving.report(account.provider, transfer)
            start = answer.value.next
            if start is None:
                break
        return POLL_SECONDS

    async def _poll_closed(self, account: CustomerAccount, api: AccountDesk) -> float | None:
        """Looks for late transfers, which are held, in case that their webhooks were lost."""
        assert account.closed_at is not None
        is_over = datetime.now(UTC) - account.closed_at > CLOSED_POLLED_FOR
        if is_over or account.account_number is None:
            return None
        seconds = await self._poll(account, api)
        return CLOSED_POLL_SECONDS if seconds == POLL_SECONDS else seconds

    async def _close(self, account: CustomerAccount, api: AccountDesk) -> float | None:
        """Closes the account at the provider, if it was ever requested there.

        If the provider has no call for that, the account is closed for us alone: transfers into it
        are held.
        """
        closed = AccountState(status=ReportedAccountStatus.CLOSED)
        if account.sent_at is not None:
            if account.status is AccountStatus.PENDING:
                found = await api.state(account.known)
                # If only an administrator can look the account up, it is closed for us alone.
                if isinstance(found, Unknown) and not found.needs_lookup:
                    return RETRY_SECONDS
                if isinstance(found, Done) and found.value.status is ReportedAccountStatus.ACTIVE:
                    account = await account_states.apply(
                        self._db, account, AccountStatus.ACTIVE, found.value
                    )
            if account.status is AccountStatus.ACTIVE and isinstance(
                await api.close(account.known), Unknown
            ):
                return RETRY_SECONDS
        await account_states.apply(self._db, account, AccountStatus.CLOSED, closed)
        return CLOSED_POLL_SECONDS

    async def _advance_in_sandbox(self, account: CustomerAccount) -> float | None:
        """Creates or closes a test account, without a provider."""
        if account.status is AccountStatus.CLOSED:
            return None
        if account.closing_at is not None:
            closed = AccountState(status=ReportedAccountStatus.CLOSED)
            await account_states.apply(self._db, account, AccountStatus.CLOSED, closed)
            return None
        customer = await store.customer(self._db, account.merchant_id, account.customer_id)
        assert customer is not None
        if customer.personal_numbers(self._keyring).bvn == SANDBOX_FAILING_BVN:
            return await self._fail(account, RefusalCode.ACCOUNT_DETAILS_REJECTED, NOT_VERIFIED)
        number = "99" + "".join(str(ord(each) % 10) for each in random_base32(8))
        state = AccountState(
            status=ReportedAccountStatus.ACTIVE,
            bank_name=SANDBOX_BANK,
            bank_code=SANDBOX_BANK_CODE,
            account_number=number,
            account_name=customer.name,
        )
        await account_states.apply(self._db, account, AccountStatus.ACTIVE, state)
        return None
