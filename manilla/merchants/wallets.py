"""Wallets: one per merchant, environment and currency."""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from manilla.kit import ids
from manilla.kit.db import Connection, Database
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.ledger import posting
from manilla.ledger import queries as ledger
from manilla.ledger.posting import Environment, Line, Outcome, Posting
from manilla.merchants import queries
from manilla.platform import changes

SANDBOX_START = 1_000_000  # major units, so that a new merchant can try payouts at once


REASON_LENGTH_MAX = 200


class WalletStatus(StrEnum):
    ACTIVE = "active"
    INACTIVE = "inactive"


class WalletNotFound(Refusal):
    status, code = 404, "WALLET_NOT_FOUND"
    message = "The merchant has no such wallet."


class FundingRefused(Refusal):
    message = "The wallet cannot be funded by this amount."


class Funded(msgspec.Struct, frozen=True):
    trx_id: str
    balance: Money


async def open_all(connection: Connection, merchant_id: int, currencies: Sequence[str]) -> None:
    """Opens what is missing, in both environments; a new sandbox wallet gets its first money."""
    await queries.open_wallets(connection, merchant_id, Environment.PRODUCTION, currencies)
    new = await queries.open_wallets(connection, merchant_id, Environment.SANDBOX, currencies)
    first_money = [
        _funding(
            merchant_id,
            Environment.SANDBOX,
            Money.of(SANDBOX_START, currency),
            "The sandbox wallet's first money",
        )
        for currency in new
    ]
    if first_money:
        results = await ledger.post(connection, first_money)
        assert all(result.outcome is Outcome.POSTED for result in results)


async def fund(
    db: Database, merchant_id: int, environment: Environment, amount: Money, reason: str
) -> Funded:
    if amount.minor <= 0:
        raise FundingRefused("The amount must be above zero.")
    if not 1 <= len(reason.strip()) <= REASON_LENGTH_MAX or not reason.isprintable():
        raise FundingRefused(f"A reason has 1 to {REASON_LENGTH_MAX} printable characters.")
    order = _funding(merchant_id, environment, amount, reason)
    [result] = await ledger.post(db, [order])
    if result.outcome is Outcome.NO_WALLET:
        raise WalletNotFound(
            f"Merchant {merchant_id} has no {environment} wallet in {amount.currency}."
        )
    if result.outcome is Outcome.BALANCE_LIMIT:
        raise FundingRefused("The wallet would hold more than a wallet can.")
    assert result.outcome is Outcome.POSTED
    assert result.balance_minor is not None
    return Funded(order.trx_id, Money(amount.currency, result.balance_minor))


async def set_status(
    db: Database, merchant_id: int, environment: Environment, currency: str, status: WalletStatus
) -> None:
    async with db.transaction() as connection:
        version = await changes.announce(connection, changes.MERCHANTS)
        await queries.touch_merchant(connection, merchant_id, version)
        if not await queries.set_wallet_status(
            connection, merchant_id, environment, currency, status
        ):
            raise WalletNotFound(
                f"Merchant {merchant_id} has no {environment} wallet in {currency}."
            )


def _funding(merchant_id: int, environment: Environment, amount: Money, reason: str) -> Posting:
    return Posting(
        merchant_id=merchant_id,
        trx_id=ids.new_trx_id(merchant_id),
        kind="funding",
        environment=environment,
        wallet=amount,
        first=Line(posting.ADJUSTMENT, -amount.minor),
        reason=reason,
    )
