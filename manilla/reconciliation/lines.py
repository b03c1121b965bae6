"""Stores the lines of a provider statement. Skips lines that are already stored."""

from collections.abc import Iterable, Sequence
from datetime import date, datetime

import msgspec

from manilla.kit.clock import LAGOS
from manilla.kit.database.connections import Connection
from manilla.providers import reading
from manilla.providers.port import LineKind, StatementLine

ROWS_AT_ONCE = 5_000
TRX_ID_LENGTH = 33  # length of a payment's id, the first part of a charge's reference


class ImportResult(msgspec.Struct, frozen=True):
    lines: int
    new: int
    changed: int  # number of lines that were already stored with another amount

    def __add__(self, other: "ImportResult") -> "ImportResult":
        return ImportResult(
            self.lines + other.lines, self.new + other.new, self.changed + other.changed
        )


NOTHING = ImportResult(0, 0, 0)


def day_of(moment: datetime) -> date:
    return moment.astimezone(LAGOS).date()


def trx_id_in(line: StatementLine) -> str | None:
    """Returns our transaction's id if one of the line's references is ours."""
    for text in (line.reference, line.provider_reference):
        found = reading.our_reference(text or "")
        if found:
            return found[:TRX_ID_LENGTH]
    return None


async def lock(connection: Connection, provider: str) -> None:
    """Locks a provider account's statement imports and comparisons until the commit."""
    await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 24))", provider)


async def store(
    connection: Connection, provider: str, lines: Sequence[StatementLine]
) -> ImportResult:
    """Stores statement lines, except lines with an amount of zero."""
    await lock(connection, provider)
    moved = [line for line in lines if line.amount.minor]
    total = NOTHING
    for start in range(0, len(moved), ROWS_AT_ONCE):
        total += await _store(connection, provider, moved[start : start + ROWS_AT_ONCE])
    return total


async def _store(
    connection: Connection, provider: str, lines: Sequence[StatementLine]
) -> ImportResult:
    columns = zip(*(_row(line) for line in lines), strict=True)
    written = await connection.record(
        """
        WITH written AS (
            INSERT INTO statement_line AS known
                   (provider, line_id, booked_at, currency, amount_minor, kind, reference,
                    provider_reference, description, balance_after_minor, trx_id, matched_by)
            SELECT $1, given.*, CASE WHEN given.trx_id IS NOT NULL THEN 'reference' END
              FROM unnest($2::text[], $3::timestamptz[], $4::text[], $5::bigint[], $6::text[],
                          $7::text[], $8::text[], $9::text[], $10::bigint[], $11::text[])
                   AS given (line_id, booked_at, currency, amount_minor, kind, reference,
                             provider_reference, description, balance_after_minor, trx_id)
             ORDER BY given.line_id
                ON CONFLICT (merchant_id, provider, line_id) DO UPDATE
               SET amount_minor = excluded.amount_minor, currency = excluded.currency
             WHERE (known.amount_minor, known.currency::text)
                   <> (excluded.amount_minor, excluded.currency::text)
            RETURNING xmax = 0 AS is_new, trx_id),
        opened AS (
            INSERT INTO unmatched_transaction (provider, trx_id)
            SELECT DISTINCT $1, trx_id FROM written WHERE trx_id IS NOT NULL
                ON CONFLICT DO NOTHING)
        SELECT count(*) FILTER (WHERE is_new) AS new,
               count(*) FILTER (WHERE NOT is_new) AS changed FROM written""",
        *(provider, *map(list, columns)),
    )
    return ImportResult(len(lines), written["new"], written["changed"])


def _row(line: StatementLine) -> tuple[object, ...]:
    balance = line.balance_after
    return (
        *(line.line_id, line.booked_at, line.amount.currency, line.amount.minor, line.kind),
        *(line.reference, line.provider_reference, line.description),
        *(None if balance is None else balance.minor, trx_id_in(line)),
    )


async def store_days(
    connection: Connection,
    provider: str,
    currency: str,
    days: Iterable[date],
    kinds: frozenset[LineKind],
) -> None:
    """Records that the provider statement for these days is complete."""
    await lock(connection, provider)
    await connection.execute(
        """
        INSERT INTO statement_day (provider, currency, day, kinds)
        SELECT $1, $2, day, $4::text[] FROM unnest($3::date[]) AS day
            ON CONFLICT (provider, currency, day) DO UPDATE
           SET kinds = excluded.kinds, imported_at = now()""",
        *(provider, currency, list(days), sorted(kinds)),
    )
