"""Daily sign-off: an accountant confirms the day's figures, which then never change."""

import hashlib
from collections.abc import Sequence
from datetime import UTC, date, datetime

import msgspec

from manilla.audit import actor, audit
from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.rows import RowSource, columns, common_fields
from manilla.kit.errors import Refusal
from manilla.kit.texts import is_line
from manilla.reconciliation import days, lines
from manilla.reconciliation.days import DayFigures, ReconciledDay

NOTE_LENGTH_MAX = 500
EARLIER_MAX = 20  # maximum number of sign-offs of one day that are listed

# The figures that are compared with the signed-off ones, and their labels on pages and in files.
COMPARED = {
    "ledger": "Moved in our ledger",
    "movements": "Movements in our ledger",
    "statement": "Moved on the statement",
    "lines": "Lines on the statement",
    "open_movements": "Unmatched movements",
    "open_lines": "Unmatched lines",
    "ledger_balance": "Our ledger's balance",
    "statement_balance": "Balance on the statement",
    "reported_balance": "Balance that the provider reported",
}


class NotSigned(Refusal):
    message = "This day cannot be signed."


class SignOff(DayFigures, frozen=True, kw_only=True):
    """A day's figures at the time of the sign-off."""

    provider: str
    day: date
    signed_at: datetime
    signed_by: str
    note: str


class FigureChange(msgspec.Struct, frozen=True):
    label: str
    signed: object
    current: object


def changes(signed: DayFigures, current: DayFigures) -> list[FigureChange]:
    return [
        FigureChange(label, getattr(signed, name), getattr(current, name))
        for name, label in COMPARED.items()
        if getattr(signed, name) != getattr(current, name)
    ]


def digest(figures: DayFigures) -> str:
    """Returns a digest of the figures, so that users sign off only figures that they have seen."""
    content = msgspec.json.encode(common_fields(DayFigures, figures))
    return hashlib.sha256(content).hexdigest()[:32]


async def sign(
    db: Database,
    provider: str,
    currency: str,
    day: date,
    *,
    note: str = "",
    seen: str | None = None,
) -> SignOff:
    """Stores the current figures of a day as signed off by the current user.

    `seen` is the digest of the figures that the user has seen.
    """
    async with db.transaction() as connection:
        await lines.lock(connection, provider)
        current = await days.find(connection, provider, currency, day)
        _check(current, note, seen)
        assert current is not None
        signed = await _insert(connection, current, note)
        await audit.record(
            connection,
            "statement.sign_off",
            f"provider:{provider}",
            day=day.isoformat(),
            statement=current.statement,
            ledger=current.ledger,
            provider_balance=current.provider_balance,
            unmatched=current.unmatched,
            note=note,
        )
        return signed


def _check(current: ReconciledDay | None, note: str, seen: str | None) -> None:
    if current is None:
        raise NotSigned("This day's statement was not imported.")
    if current.day >= lines.day_of(datetime.now(UTC)):
        raise NotSigned("This day is not over yet. Sign it off when its statement is complete.")
    if seen is not None and seen != digest(current):
        raise NotSigned("The figures have changed since you opened the page. Check them again.")
    if note and not is_line(note, NOTE_LENGTH_MAX):
        text = f"A note has at most {NOTE_LENGTH_MAX} printable characters on one line."
        raise NotSigned.at("note", text)
    if current.unmatched and not note:
        text = f"This day has {current.result}. Explain in a note why you sign it off anyway."
        raise NotSigned.at("note", text)


async def newest_day(db: Database) -> date | None:
    """Returns the latest day that was signed off for any account, or None if there is none."""
    found: date | None = await db.value("SELECT max(day) FROM day_sign_off")
    return found


async def _insert(connection: Connection, current: ReconciledDay, note: str) -> SignOff:
    figures = common_fields(DayFigures, current)
    by = {"provider": current.provider, "day": current.day}
    values = {**figures, **by, "signed_by": actor.current.get().name, "note": note}
    places = ", ".join(f"${place}" for place in range(1, len(values) + 1))
    signed = await connection.row(
        SignOff,
        f"INSERT INTO day_sign_off ({', '.join(values)}) VALUES ({places})"
        f" RETURNING {columns(SignOff)}",
        *values.values(),
    )
    assert signed is not None
    return signed


async def latest(
    db: RowSource, found: Sequence[ReconciledDay]
) -> dict[tuple[str, str, date], SignOff]:
    """Maps each account, currency and day to the last sign-off."""
    rows = await db.rows(
        SignOff,
        f"""
        SELECT DISTINCT ON (provider, currency, day) {columns(SignOff)}
          FROM day_sign_off
         WHERE (provider, currency::text, day) IN (
               SELECT * FROM unnest($1::text[], $2::text[], $3::date[]))
         ORDER BY provider, currency, day, signed_at DESC""",
        [each.provider for each in found],
        [each.currency for each in found],
        [each.day for each in found],
    )
    return {(row.provider, row.currency, row.day): row for row in rows}


async def of_day(db: RowSource, day: ReconciledDay) -> list[SignOff]:
    return await db.rows(
        SignOff,
        f"SELECT {columns(SignOff)} FROM day_sign_off"
        " WHERE provider = $1 AND currency::text = $2 AND day = $3"
        " ORDER BY signed_at DESC LIMIT $4",
        *(day.provider, day.currency, day.day, EARLIER_MAX),
    )
