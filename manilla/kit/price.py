"""What a transfer costs: its amount, and what the platform charges for it."""

import msgspec

from manilla.kit.money import Money


class Price(msgspec.Struct, frozen=True):
    amount: Money
    fee: Money

    @property
    def debit(self) -> Money:
        """The amount that is debited from the wallet."""
        return self.amount + self.fee


def debit_minor(table: str) -> str:
    """Returns the SQL of what a row costs. `table` is the name of its table in the query."""
    return f"({table}.amount_minor + {table}.fee_minor)"
