"""Balances of all ledger accounts, summed over all merchants."""

import msgspec

from manilla.kit.db import Database
from manilla.kit.money import Money


class AccountBalance(msgspec.Struct, frozen=True):
    environment: str
    currency: str
    account: str
    entries: int
    balance_minor: int

    @property
    def balance(self) -> Money:
        return Money(self.currency, self.balance_minor)


async def balances(db: Database) -> list[AccountBalance]:
    """Returns the balance of each account. All wallets count as one account. Reads every entry."""
    return await db.rows(
        AccountBalance,
        """
        SELECT environment, currency, account, count(*) AS entries,
               sum(amount_minor)::bigint AS balance_minor
          FROM entry
         GROUP BY environment, currency, account
         ORDER BY environment, currency, account""",
    )
