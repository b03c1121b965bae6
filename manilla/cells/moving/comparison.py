"""Compares the copy of a merchant with the original, and verifies the books of a cell."""

from collections.abc import Mapping

from manilla.cells.moving.fence import CannotMove
from manilla.cells.moving.tables import APPENDED, REPLICATED
from manilla.kit.database.connections import Database
from manilla.proofs import verify

COMPARED: Mapping[str, str] = {
    "wallets": """
        SELECT environment, currency, balance_minor, status FROM wallet
         WHERE merchant_id = $1 ORDER BY environment, currency""",
    "last posting": "SELECT max(posting_id) FROM entry WHERE merchant_id = $1",
    "open payouts": """
        SELECT count(*), sum(amount_minor) FROM payout
         WHERE merchant_id = $1 AND status = 'pending'""",
    "last event": """
        SELECT epoch, xid, id FROM notification
         WHERE merchant_id = $1 ORDER BY epoch DESC, xid DESC, id DESC LIMIT 1""",
}


class BooksAreWrong(CannotMove):
    message = "The books of a cell are not correct."


async def compare(source: Database, target: Database, merchant_id: int) -> None:
    """Compares what the second cell has with the first cell, where nothing changes any more."""
    for what, sql in COMPARED.items():
        original, copy = [
            [tuple(row) for row in await db.records(sql, merchant_id)] for db in (source, target)
        ]
        if original != copy:
            raise CannotMove(f"The copy of the merchant differs from the original: {what}.")


async def compare_rows(
    source: Database, target: Database, merchant_id: int, appended_after: Mapping[str, int]
) -> None:
    """Compares all copied rows of the merchant, which has a fence in both cells."""
    conditions = dict.fromkeys(REPLICATED, "true")
    del conditions["move_marker"]
    for table, column in APPENDED.items():
        conditions[table] = f"{column} > {appended_after[table]}"
    for table, condition in conditions.items():
        sql = f"""
            SELECT (count(*), sum(hashtextextended(to_jsonb(t)::text, 0)))::text
              FROM {table} t WHERE merchant_id = $1 AND {condition}"""
        if await source.value(sql, merchant_id) != await target.value(sql, merchant_id):
            raise CannotMove(
                f"A database has failed over during the copy, and the rows in the table {table}"
                " differ. Take the move back with --abort, and start it again."
            )


async def verify_books(url: str, cell: str) -> None:
    """Verifies all books of a cell with the independent program."""
    verified = await verify.run(url, [], None)
    wrong = [each for each in verified.findings if each.check != "archive"]
    if wrong:
        first = wrong[0]
        raise BooksAreWrong(
            f"The books of {cell} are not correct: {first.check}, {first.subject}: {first.detail}"
        )
