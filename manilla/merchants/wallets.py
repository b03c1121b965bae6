"""Wallets. A merchant has one wallet per environment and currency."""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from manilla.audit import audit
from manilla.kit import changes
from manilla.kit.database.connections import Connection, Database, transaction_of
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.kit.texts import is_line
from manilla.ledger import posting, trx_ids
from manilla.ledger.posting import Line, Posting, PostingOutcome
from manilla.ledger.scope import Tenant
from manilla.merchants import queries
from manilla.merchants.queries import WalletRow
from manilla.posting_kinds import PostingKind

# The starting balance of sandbox wallets in major units. New merchants can test payouts with it.
SANDBOX_START = 1_000_000
REASON_LENGTH_MAX = 200


class WalletStatus(StrEnum):
    ACTIVE = "active"
    INACTIVE = "inactive"


class WalletNotFound(Refusal):
    status, code = 404, "WALLET_NOT_FOUND"
    message = "The merchant has no such wallet."


class FundingRefused(Refusal):
    message = "The wallet cannot be funded with this amount."


class AdjustmentRefused(Refusal):
    message = "The wallet cannot be adjusted by this amount."


class BadDisputeLimit(Refusal):
    status, code = 400, "VALIDATION_FAILED"
    message = "The amount must not be below zero."


class AlreadyAdjusted(Refusal):
    status, code = 409, "ALREADY_ADJUSTED"
    message = "This adjustment has already been made."


class CoveredPostings(msgspec.Struct, frozen=True):
    """Postings of which the wallet covers what it can. The rest is the merchant's debt."""

    postings: list[Posting]
    short_minor: int  # what was added to the debt


class FundingResult(msgspec.Struct, frozen=True):
    trx_id: str
    balance: Money


async def open_all(connection: Connection, merchant_id: int, currencies: Sequence[str]) -> None:
    """Creates missing wallets in both environments. Sandbox wallets get a starting balance."""
    await queries.open_wallets(connection, merchant_id, Environment.PRODUCTION, currencies)
    new = await queries.open_wallets(connection, merchant_id, Environment.SANDBOX, currencies)
    starting_balances = [
        _funding(
            merchant_id,
            Environment.SANDBOX,
            Money.of(SANDBOX_START, currency),
            "Starting balance of the sandbox wallet",
        )
        for currency in new
    ]
    if starting_balances:
        results = await posting.post(connection, starting_balances)
        assert all(result.outcome is PostingOutcome.POSTED for result in results)


async def fund(
    db: Database | Connection,
    merchant_id: int,
    environment: Environment,
    amount: Money,
    reason: str,
) -> FundingResult:
    check(amount, reason, may_take=False)
    return await _post(db, _funding(merchant_id, environment, amount, reason))


async def adjust(
    db: Database | Connection,
    merchant_id: int,
    environment: Environment,
    amount: Money,
    reason: str,
    trx_id: str | None = None,
) -> FundingResult:
    """Adjusts a wallet's balance, which cannot become negative. A `trx_id` is applied only once."""
    check(amount, reason, may_take=True)
    funding = _funding(merchant_id, environment, amount, reason)
    order = msgspec.structs.replace(
        funding, kind=PostingKind.ADJUSTMENT, trx_id=trx_id or funding.trx_id
    )
    return await _post(db, order)


async def get(
    db: Database | Connection, merchant_id: int, environment: Environment, currency: str
) -> WalletRow:
    found = await queries.wallet(db, merchant_id, environment, currency)
    if found is None:
        raise WalletNotFound(f"Merchant {merchant_id} has no {environment} wallet in {currency}.")
    return found


def check(amount: Money, reason: str, *, may_take: bool) -> None:
    if may_take and amount.minor == 0:
        raise AdjustmentRefused("The amount must not be zero.")
    if not may_take and amount.minor <= 0:
        raise FundingRefused("The amount must be above zero.")
    if not is_line(reason, REASON_LENGTH_MAX):
        raise FundingRefused(f"A reason has 1 to {REASON_LENGTH_MAX} printable characters.")


async def _post(db: Database | Connection, order: Posting) -> FundingResult:
    async with transaction_of(db) as connection:
        [result] = await posting.post(connection, [order])
        match result.outcome:
            case PostingOutcome.NO_WALLET:
                raise WalletNotFound(
                    f"Merchant {order.merchant_id} has no {order.environment} wallet"
                    f" in {order.wallet.currency}."
                )
            case PostingOutcome.DUPLICATE:
                raise AlreadyAdjusted
            case PostingOutcome.BALANCE_LIMIT:
                raise FundingRefused("The balance would exceed the maximum of a wallet.")
            case PostingOutcome.INSUFFICIENT_BALANCE:
                raise AdjustmentRefused("The wallet's balance is lower than this amount.")
        assert result.outcome is PostingOutcome.POSTED
        assert result.balance_minor is not None
        assert order.kind.audit_action is not None
        credited = Money(order.wallet.currency, result.balance_minor)
        # A credit first pays what the merchant owes.
        wallet = await get(connection, order.merchant_id, order.environment, order.wallet.currency)
        balance = Money(wallet.currency, wallet.balance_minor)
        await audit.record(
            connection,
            order.kind.audit_action,
            _subject(order.merchant_id, order.environment, balance.currency),
            merchant_id=order.merchant_id,
            amount=order.wallet,
            reason=order.reason,
            trx_id=order.trx_id,
            balance={"before": credited - order.wallet, "after": balance},
        )
    return FundingResult(order.trx_id, balance)


async def lock(connection: Connection, tenant: Tenant, currency: str) -> None:
    await connection.execute(
        "SELECT FROM wallet WHERE merchant_id = $1 AND environment = $2 AND currency = $3"
        " FOR NO KEY UPDATE",
        *(tenant.merchant_id, tenant.environment, currency),
    )


async def cover_or_owe(connection: Connection, postings: Sequence[Posting]) -> CoveredPostings:
    """Splits what the wallet cannot cover into lines of the account `short`, as a debt.

    The postings are about one wallet, and the caller posts them in the same transaction. Locks the
    wallet, so that its balance does not change before that.
    """
    if all(each.wallet.minor >= 0 for each in postings):
        return CoveredPostings(list(postings), 0)
    first = postings[0]
    balance_minor: int = await connection.value(
        """
        SELECT balance_minor FROM wallet
         WHERE merchant_id = $1 AND environment = $2 AND currency = $3 FOR NO KEY UPDATE""",
        *(first.merchant_id, first.environment, first.wallet.currency),
    )
    covered, short_minor = [], 0
    for each in postings:
        missing = max(0, -(balance_minor + each.wallet.minor))
        balance_minor += each.wallet.minor + missing
        short_minor += missing
        covered.append(_with_debt(each, missing))
    await connection.execute(
        """
        UPDATE wallet SET short_minor = short_minor + $4
         WHERE merchant_id = $1 AND environment = $2 AND currency = $3""",
        *(first.merchant_id, first.environment, first.wallet.currency, short_minor),
    )
    return CoveredPostings(covered, short_minor)


def _with_debt(order: Posting, missing: int) -> Posting:
    return msgspec.structs.replace(
        order,
        wallet=Money(order.wallet.currency, order.wallet.minor + missing),
        lines=(*order.lines, *posting.nonzero(Line(posting.SHORT, -missing))),
    )


def _subject(merchant_id: int, environment: Environment, currency: str) -> str:
    return f"wallet:{merchant_id}:{environment}:{currency}"


async def set_status(
    db: Database, merchant_id: int, environment: Environment, currency: str, status: WalletStatus
) -> None:
    async with db.transaction() as connection:
        version = await changes.announce(connection, changes.MERCHANTS)
        await queries.touch_merchant(connection, merchant_id, version)
        before = await get(connection, merchant_id, environment, currency)
        await connection.execute(
            """
            UPDATE wallet SET status = $4
             WHERE merchant_id = $1 AND environment = $2 AND currency = $3""",
            *(merchant_id, environment, currency, status),
        )
        if before.status != status:
            await audit.record(
                connection,
                "wallet.set_status",
                _subject(merchant_id, environment, currency),
                merchant_id=merchant_id,
                changed={"status": {"before": before.status, "after": status}},
            )


async def accept_disputes_below(
    db: Database, merchant_id: int, environment: Environment, limit: Money
) -> None:
    """Makes Manilla accept the merchant's new disputes below this amount. Zero ends this."""
    if limit.minor < 0:
        raise BadDisputeLimit
    async with db.transaction() as connection:
        version = await changes.announce(connection, changes.MERCHANTS)
        await queries.touch_merchant(connection, merchant_id, version)
        found = await get(connection, merchant_id, environment, limit.currency)
        before = Money(limit.currency, found.accept_disputes_below_minor)
        if before == limit:
            return
        await connection.execute(
            """
            UPDATE wallet SET accept_disputes_below_minor = $4
             WHERE merchant_id = $1 AND environment = $2 AND currency = $3""",
            *(merchant_id, environment, limit.currency, limit.minor),
        )
        await audit.record(
            connection,
            "wallet.accept_disputes_below",
            _subject(merchant_id, environment, limit.currency),
            merchant_id=merchant_id,
            changed={"accept_disputes_below": {"before": before, "after": limit}},
        )


async def dispute_limits(db: Database, tenant: Tenant) -> list[Money]:
    """Returns the amount below which new disputes are accepted automatically, for each wallet."""
    return [
        Money(row.currency, row.accept_disputes_below_minor)
        for row in await queries.wallets(db, tenant.merchant_id)
        if row.environment == tenant.environment
    ]


async def accepted_below(connection: Connection, tenant: Tenant, currency: str) -> Money:
    found = await get(connection, tenant.merchant_id, tenant.environment, currency)
    return Money(currency, found.accept_disputes_below_minor)


def _funding(merchant_id: int, environment: Environment, amount: Money, reason: str) -> Posting:
    return Posting(
        merchant_id=merchant_id,
        trx_id=trx_ids.new(merchant_id),
        kind=PostingKind.FUNDING,
        environment=environment,
        wallet=amount,
        lines=(Line(posting.ADJUSTMENT, -amount.minor),),
        reason=reason,
    )
