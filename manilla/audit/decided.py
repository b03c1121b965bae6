"""Digests of what a person has decided, such as an account, in the audit entry of the decision.

The audit log is a hash chain. If the row was changed in the database since the decision, it differs
from the entry: it is not used, and a check of the ledger finds it.
"""

from typing import Any

import msgspec

from manilla.kit.database.connections import Connection, Database

# The field of an audit entry with the digest.
DESTINATION = "destination"

# A merchant that arrived from another cell has its entries there. The epoch starts with the first
# version that writes digests, so earlier entries have none.
_IS_EXCUSED = """(
          {decided_at} < coalesce((SELECT since FROM public.destination_epoch), '-infinity')
          OR EXISTS (SELECT FROM public.audit a
                      WHERE a.merchant_id = t.merchant_id AND a.action = 'cell.move.arrive'))"""


class DecidedRows(msgspec.Struct, frozen=True):
    """A table whose rows people decide on. In its SQL, `t` is the row."""

    table: str
    subject: str  # the subject of the audit entries, without the row's id
    content: str  # the text that the digest covers
    decided_at: str

    @property
    def digest(self) -> str:
        return f"'sha256:' || encode(sha256(convert_to({self.content}, 'UTF8')), 'hex')"

    @property
    def is_unchanged(self) -> str:
        """Returns the SQL condition that the row matches its newest audit entry."""
        return f"""coalesce((
               SELECT a.detail ->> '{DESTINATION}' = {self.digest} FROM public.audit a
                WHERE a.subject = '{self.subject}:' || t.id AND a.merchant_id = t.merchant_id
                  AND a.detail ? '{DESTINATION}'
                ORDER BY a.id DESC LIMIT 1), {_IS_EXCUSED.format(decided_at=self.decided_at)})"""

    async def digest_of(self, connection: Connection, merchant_id: int, row_id: Any) -> str:
        found: str = await connection.value(
            f"SELECT {self.digest} FROM {self.table} t WHERE t.merchant_id = $1 AND t.id = $2",
            *(merchant_id, row_id),
        )
        return found

    async def check(self, db: Database | Connection, merchant_id: int, row_id: Any) -> bool:
        """Returns False if the row was changed after the decision, so it must not be used."""
        return await db.has_row(
            f"""
            SELECT true FROM {self.table} t
             WHERE t.merchant_id = $1 AND t.id = $2 AND {self.is_unchanged}""",
            *(merchant_id, row_id),
        )


SETTLEMENT_ACCOUNTS = DecidedRows(
    "settlement_account",
    "settlement_account",
    r"concat_ws(E'\n', t.environment, t.currency, t.method_code, t.beneficiary::text)",
    "t.created_at",
)

SAVED_ACCOUNTS = DecidedRows(
    "payout_account",
    "account",
    r"concat_ws(E'\n', t.method_code, t.beneficiary::text)",
    "t.created_at",
)
