"""Lines of statements with which a provider took a disputed payment back."""

import msgspec

from manilla.kit.database.rows import RowSource, columns
from manilla.kit.money import Money
from manilla.providers.port import LineKind

LINES_MAX = 1_000
_UNMATCHED = """
      FROM (SELECT provider AS account, trx_id AS found FROM unmatched_transaction
             WHERE merchant_id = 0) AS unmatched
      JOIN statement_line ON merchant_id = 0 AND provider = account AND trx_id = found
     WHERE kind = $1 AND amount_minor < 0"""


class DisputedLine(msgspec.Struct, frozen=True):
    line_id: str
    currency: str
    amount_minor: int
    trx_id: str  # of the payment
    reference: str | None
    provider_reference: str | None
    matched_by: str | None  # how the payment was found

    @property
    def taken(self) -> Money:
        return Money(self.currency, -self.amount_minor)

    @property
    def names_payment(self) -> bool:
        """Whether the line names the payment.

        A number can also be the id of something that we do not know, such as a dispute.
        """
        given = self.provider_reference or self.reference or ""
        return self.matched_by == "reference" or not given.isdigit()


async def providers(db: RowSource) -> list[str]:
    """Returns the accounts that have such lines which do not match our ledger."""
    records = await db.records("SELECT DISTINCT provider" + _UNMATCHED, LineKind.DISPUTE)
    return [each["provider"] for each in records]


async def unmatched_lines(db: RowSource, provider: str) -> list[DisputedLine]:
    return await db.rows(
        DisputedLine,
        f"SELECT {columns(DisputedLine)} {_UNMATCHED} AND provider = $2 LIMIT $3",
        *(LineKind.DISPUTE, provider, LINES_MAX),
    )
