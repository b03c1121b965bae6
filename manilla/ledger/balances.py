"""Balances of all ledger accounts, summed over all merchants."""

import msgspec

from manilla.kit.database.rows import Reads
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


async def balances(db: Reads) -> list[AccountBalance]:
    """Returns each account's balance, with all wallets combined. Reads every ledger entry."""
    records = await db.records(
        """
        SELECT environment, currency, account, count(*) AS entries, sum(amount_minor) AS minor
          FROM entry
         GROUP BY environment, currency, account
         ORDER BY environment, currency, account"""
    )
    # The sum has the type numeric, because the total of all merchants can exceed a bigint.
    return [
        AccountBalance(
            record["environment"],
            record["currency"],
            record["account"],
            record["entries"],
            int(record["minor"]),
        )
        for record in records
    ]
