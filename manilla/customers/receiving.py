"""Receives transfers into customers' accounts. Each becomes one payment, or is held for review.

Webhooks, polling and statements can report the same transfer in any order, several times, and hours
late. The provider's reference of the transfer decides whether it was received before.
"""

from datetime import UTC, datetime

import msgspec

from manilla.cases import cases
from manilla.cases.cases import CaseKind
from manilla.customers import account_store, store
from manilla.customers.account import AccountStatus, CustomerAccount
from manilla.customers.customer import CustomerRow
from manilla.kit import crash
from manilla.kit.database.connections import Connection, Database
from manilla.kit.ids import random_base32
from manilla.kit.money import Money
from manilla.ledger import trx_ids
from manilla.ledger.idempotency import Remember, without_key
from manilla.ledger.scope import Tenant
from manilla.ledger.transactions import SANDBOX_REMARK
from manilla.merchants import availability, limits, wallets
from manilla.merchants.directory import Caller, Directory
from manilla.merchants.merchants import CommissionBearer
from manilla.payments import commission, states
from manilla.payments import store as payments
from manilla.payments.charges import SANDBOX_ACCOUNT, SANDBOX_BANK
from manilla.payments.commission import PricedQuote
from manilla.payments.payment import Charge, ChargeStatus, NewPayment
from manilla.platform.settings import CurrentSettings, LimitKind
from manilla.prices.book import PriceBook
from manilla.prices.price import Way
from manilla.providers import claims
from manilla.providers.port import (
    AccountTransfer,
    ChargeState,
    Payer,
    ReportedChargeStatus,
    WebhookSubject,
)
from manilla.splits import planning
from manilla.splits.rule import SplitInvalid

REFERENCE_PREFIX = "ACC-"


class Receiving:
    def __init__(
        self, db: Database, platform: CurrentSettings, directory: Directory, prices: PriceBook
    ) -> None:
        self._db = db
        self._platform = platform
        self._directory = directory
        self._prices = prices

    async def report(self, provider: str, transfer: AccountTransfer) -> None:
        """Credits a reported transfer, holds it, or compares it with what was received before."""
        account = await self._account_of(provider, transfer)
        caller = None
        if account is not None:
            if await account_store.lives_elsewhere(self._db, account):
                return  # polling finds the transfer in the merchant's cell
            caller = await self._directory.read(account.environment, account.merchant_id)
        async with self._db.transaction() as connection:
            before = await account_store.find_transfer(connection, provider, transfer.reference)
            is_paid = transfer.status is ReportedChargeStatus.PAID
            if before is None and account is not None and caller is not None and is_paid:
                await self._receive(connection, caller, account, transfer)
                crash.point("before_account_transfer_commit")
        if before is not None:
            await self._compare(*before, transfer)
        elif account is None and is_paid:
            await self._report_unknown(provider, transfer)

    async def simulate(
        self,
        caller: Caller,
        account: CustomerAccount,
        amount: Money,
        payer_name: str,
        remember: Remember = without_key,
    ) -> str:
        """Makes a test transfer in the sandbox, and returns the payment's id."""
        payer = Payer(name=payer_name, bank=SANDBOX_BANK, account_number=SANDBOX_ACCOUNT)
        transfer = AccountTransfer(
            reference=random_base32(20),
            status=ReportedChargeStatus.PAID,
            paid=amount,
            payer=payer,
            account_number=account.account_number,
        )
        async with self._db.transaction() as connection:
            current, customer = await _locked(connection, account)
            assert current.is_sandbox
            priced = self._price(caller, current, amount)
            obstacle = await self._obstacle(connection, caller, current, customer, transfer, priced)
            split, obstacle = await _divided(connection, caller, current, priced, obstacle)
            if obstacle is not None:
                raise states.HeldInProduction(f"{obstacle} In production, the money is held.")
            new = _payment(current, customer, priced, transfer, split)
            await account_store.add_transfer(
                *(connection, current, current.provider, transfer.reference, new.trx_id)
            )
            await states.receive_in_sandbox(connection, new, _charge(new, current, transfer))
            await remember(connection, new.trx_id)
        return new.trx_id

    async def _account_of(self, provider: str, transfer: AccountTransfer) -> CustomerAccount | None:
        """Returns the account that received the transfer, whether it is open or not."""
        ours = transfer.account_reference or ""
        merchant_id = trx_ids.ACCOUNT_IDS.owner_of(ours)
        if merchant_id is not None:
            found = await account_store.account(self._db, merchant_id, ours)
            return found if found is not None and found.provider == provider else None
        if transfer.account_number is None:
            return None
        had = await account_store.with_number(self._db, provider, transfer.account_number)
        at_that_time = (each for each in had if each.had_number_at(transfer.paid_at))
        return next(at_that_time, None) or next(iter(had), None)

    async def _receive(
        self,
        connection: Connection,
        caller: Caller,
        account: CustomerAccount,
        transfer: AccountTransfer,
    ) -> None:
        assert transfer.paid is not None
        current, customer = await _locked(connection, account)
        priced = self._price(caller, current, transfer.paid)
        obstacle = await self._obstacle(connection, caller, current, customer, transfer, priced)
        split, obstacle = await _divided(connection, caller, current, priced, obstacle)
        new = _payment(current, customer, priced, transfer, split)
        await account_store.add_transfer(
            *(connection, current, current.provider, transfer.reference, new.trx_id)
        )
        said = await claims.claims_of(
            *(connection, WebhookSubject.ACCOUNT_TRANSFER, 0),
            *(transfer.reference, current.provider),
        )
        charge = _charge(new, current, transfer)
        state = _state(transfer)
        await states.receive_transfer(connection, new, charge, state, said, obstacle)

    def _price(self, caller: Caller, account: CustomerAccount, paid: Money) -> PricedQuote:
        """The merchant bears the commission, because the customer has sent any amount."""
        return commission.quote(
            *(self._prices, caller, paid),
            bearer=CommissionBearer.MERCHANT,
            method=account.method_code,
            way=Way.ACCOUNT,
        )

    async def _obstacle(
        self,
        connection: Connection,
        caller: Caller,
        account: CustomerAccount,
        customer: CustomerRow,
        transfer: AccountTransfer,
        priced: PricedQuote,
    ) -> str | None:
        """Returns why an administrator must decide who gets the money, or None."""
        paid = transfer.paid
        assert paid is not None
        closed = availability.obstacle(caller.status, is_sandbox=caller.is_sandbox)
        if closed is not None:
            return closed.message
        return (
            _obstacle_of_account(account, customer, transfer)
            or (
                f"The account is for {account.currency}, and {paid} arrived."
                if paid.currency != account.currency
                else commission.amount_problem(paid)
            )
            or commission.fee_problem(priced)
            or await self._limit(connection, caller, paid)
        )

    async def _limit(self, connection: Connection, caller: Caller, paid: Money) -> str | None:
        about = self._platform.now, caller
        limit = limits.of(*about, LimitKind.PAYMENT, paid.currency)
        if limit is not None and limit < paid:
            return f"The amount exceeds the merchant's limit of {limit} for a payment."
        of_day = limits.of_day(*about, LimitKind.DAILY_PAYMENT, paid.currency)
        if not of_day:
            return None
        most, tenant = of_day["day_limit_minor"], Tenant(caller.merchant_id, caller.environment)
        await wallets.lock(connection, tenant, paid.currency)
        before = await payments.total_of_day(connection, tenant, paid.currency, of_day["day_from"])
        if before + paid.minor <= most:
            return None
        limit = Money(paid.currency, most)
        return f"The merchant's payments of the day would exceed its daily limit of {limit}."

    async def _compare(self, merchant_id: int, trx_id: str, transfer: AccountTransfer) -> None:
        """Applies a repeated report, which changes nothing unless it contradicts the first one.

        A provider can report a transfer as reversed because it was refunded or disputed.
        """
        payment = await payments.payment(self._db, merchant_id, trx_id)
        is_returned = payment is not None and payment.refunded_minor + payment.disputed_minor > 0
        if is_returned and transfer.status is not ReportedChargeStatus.PAID:
            return
        found = await payments.charges(self._db, merchant_id, trx_id)
        for charge in found:  # none if the payment is archived
            await states.conclude(self._db, charge, _state(transfer))

    async def _report_unknown(self, provider: str, transfer: AccountTransfer) -> None:
        detail = (
            f"{provider} reports a transfer of {transfer.paid} into an account that belongs to no "
            "customer. Nothing was posted. Find out whose account it is, or return the money."
        )
        await cases.open_case(
            *(self._db, CaseKind.UNKNOWN_ACCOUNT, f"{provider}:{transfer.reference}", detail),
            merchant_id=0,
            amount=transfer.paid,
            provider=provider,
        )


def _obstacle_of_account(
    account: CustomerAccount, customer: CustomerRow, transfer: AccountTransfer
) -> str | None:
    if customer.disabled_at is not None:
        return "The customer is disabled."
    if account.status is not AccountStatus.ACTIVE or account.closing_at is not None:
        return f"The account {account.id} is closed."
    if not account.had_number_at(transfer.paid_at):
        return f"The account {account.id} did not have this number at that time."
    if transfer.account_number not in (None, account.account_number):
        return f"The transfer names another number than that of account {account.id}."
    if None not in (account.holder, transfer.holder) and account.holder != transfer.holder:
        return "The provider names another customer as the owner of the number."
    return None


async def _divided(
    connection: Connection,
    caller: Caller,
    account: CustomerAccount,
    priced: PricedQuote,
    obstacle: str | None,
) -> tuple[str | None, str | None]:
    """Returns how the transfer is divided, if it is, and why it must be held, if it must.

    A transfer that the rule cannot divide now is held. If the owner were credited with all of it,
    the receivers' shares could be paid out before anybody knows.
    """
    given = caller.default_split if account.split is None else planning.decode_given(account.split)
    if given is None or obstacle is not None:
        return None, obstacle
    quote = priced.quote
    try:
        division = await planning.plan(
            *(connection, account.tenant, given), quote.amount, quote.divisible
        )
    except SplitInvalid as error:
        problems = " ".join((error.errors or {}).values())
        return None, f"The transfer cannot be divided. {problems or error.message}"
    return planning.encode(division), None


async def _locked(
    connection: Connection, account: CustomerAccount
) -> tuple[CustomerAccount, CustomerRow]:
    """Locks the customer and the account against changes, but not against other transfers."""
    await connection.execute(
        "SELECT FROM customer WHERE merchant_id = $1 AND id = $2 FOR SHARE",
        *(account.merchant_id, account.customer_id),
    )
    await connection.execute(
        "SELECT FROM customer_account WHERE merchant_id = $1 AND id = $2 FOR SHARE",
        *(account.merchant_id, account.id),
    )
    current = await account_store.account(connection, account.merchant_id, account.id)
    customer = await store.customer(connection, account.merchant_id, account.customer_id)
    assert current is not None
    assert customer is not None
    return current, customer


def _state(transfer: AccountTransfer) -> ChargeState:
    return ChargeState(
        status=transfer.status,
        paid=transfer.paid,
        fee=transfer.fee,
        reason=transfer.reason,
        provider_reference=transfer.statement_reference or transfer.reference,
    )


def _payment(
    account: CustomerAccount,
    customer: CustomerRow,
    priced: PricedQuote,
    transfer: AccountTransfer,
    split: str | None,
) -> NewPayment:
    trx_id = trx_ids.new(account.merchant_id)
    now = datetime.now(UTC)
    return NewPayment(
        ref_trx=REFERENCE_PREFIX + trx_id.removeprefix("TXN"),
        ipn_url=account.ipn_url or customer.ipn_url,
        customer_name=customer.name,
        customer_email=customer.email,
        customer_reference=customer.reference,
        account_id=account.id,
        payer=msgspec.json.encode(transfer.payer).decode(),
        merchant_id=account.merchant_id,
        trx_id=trx_id,
        environment=account.environment,
        **priced.columns,
        remarks=SANDBOX_REMARK if account.is_sandbox else None,
        created_at=now,
        expires_at=now,
        split=split,
    )


def _charge(new: NewPayment, account: CustomerAccount, transfer: AccountTransfer) -> Charge:
    return Charge(
        merchant_id=new.merchant_id,
        reference=f"{new.trx_id}-1",
        trx_id=new.trx_id,
        number=1,
        method_code=account.method_code,
        provider=account.provider,
        currency=new.currency,
        amount_minor=new.amount_minor,
        status=ChargeStatus.OPEN,
        created_at=new.created_at,
        bank_name=account.bank_name,
        account_number=account.account_number,
        account_name=account.account_name,
        their_reference=transfer.reference,
    )
