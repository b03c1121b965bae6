"""Parses provider statements from CSV files, for providers that have no API for statements."""

import csv
import hashlib
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from manilla.kit.amount_input import parse_signed_amount
from manilla.kit.clock import LAGOS
from manilla.kit.errors import Refusal
from manilla.kit.money import Money, MoneyError
from manilla.providers import reading
from manilla.providers.port import LineKind, StatementLine

BYTES_MAX = 256 * 1024 * 1024
LINE_LENGTH_MAX = 64 * 1024
NEEDED = ("booked_at", "amount")
OPTIONAL = (
    *("line_id", "currency", "kind", "reference", "provider_reference", "description"),
    "balance_after",
)
ERRORS_MAX = 20  # maximum number of invalid rows that are listed
TIME_FORMATS = ("%d/%m/%Y %H:%M:%S", "%d/%m/%Y %I:%M:%S %p", "%d/%m/%Y %H:%M", "%d/%m/%Y")
# All days between two lines count as imported, so lines with a wrong year must be rejected.
EARLIEST_YEAR = 2015
DEFAULT_CURRENCY = "NGN"


class BadStatement(Refusal):
    status, code = 400, "BAD_STATEMENT"
    message = "This statement cannot be read. Nothing was imported."
    # The error message without the list of invalid rows, or None if there is no list.
    summary: str | None = None
    rows: Sequence[str] = ()  # the errors of at most ERRORS_MAX invalid rows


def _bad_rows(count: int, named: Sequence[str]) -> BadStatement:
    invalid = "1 line is invalid" if count == 1 else f"{count} lines are invalid"
    more = f"; and {count - len(named)} more" if count > len(named) else ""
    summary = f"Nothing was imported, because {invalid}"
    refusal = BadStatement(f"{summary}: {'; '.join(named)}{more}.")
    refusal.summary, refusal.rows = f"{summary}.", named
    return refusal


class _BadRow(Exception):
    """The statement row is invalid. The message contains the reason."""


def read(raw: bytes) -> list[StatementLine]:
    """Parses every row, or raises BadStatement with the line numbers of the invalid rows."""
    if len(raw) > BYTES_MAX:
        raise BadStatement(f"The file is larger than {BYTES_MAX >> 20} MiB.")
    try:
        text = io.StringIO(raw.decode("utf-8-sig"), newline="")
        reader = csv.DictReader(_short_lines(text), strict=True)
        names = [(name or "").strip().lower() for name in reader.fieldnames or ()]
        reader.fieldnames = names
        _check_names(names)
        return _lines(reader)
    except UnicodeDecodeError:
        raise BadStatement("The file is not UTF-8.") from None
    except csv.Error as error:
        raise BadStatement(f"The file is not a CSV file: {error}.") from None


def _short_lines(text: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(text, start=1):
        if len(line) > LINE_LENGTH_MAX:
            raise BadStatement(f"Line {number} is longer than {LINE_LENGTH_MAX:,} characters.")
        yield line


def _check_names(names: list[str]) -> None:
    missing = [name for name in NEEDED if name not in names]
    if missing:
        raise BadStatement(f"The first line must name the columns. Missing: {', '.join(missing)}.")
    unknown = [name for name in names if name not in (*NEEDED, *OPTIONAL)]
    if unknown or len(set(names)) != len(names):
        wrong = ", ".join(unknown) or "a column is named twice"
        raise BadStatement(f"The first line has columns that cannot be used: {wrong}.")


def _lines(reader: "csv.DictReader[str]") -> list[StatementLine]:
    lines: dict[str, StatementLine] = {}
    errors: list[str] = []
    invalid = 0
    identical: Counter[str] = Counter()
    for row in reader:
        try:
            line = _line(row, identical)
            if line.line_id in lines:
                raise _BadRow(f"line_id {line.line_id} occurs twice")
            lines[line.line_id] = line
        except _BadRow as error:
            invalid += 1
            if invalid <= ERRORS_MAX:
                errors.append(f"line {reader.line_num}: {error}")
    if invalid:
        raise _bad_rows(invalid, errors)
    if not lines:
        raise BadStatement("The file has no lines.")
    return list(lines.values())


def _line(row: Mapping[str | None, object], identical: Counter[str]) -> StatementLine:
    if None in row or None in row.values():
        raise _BadRow("the number of values differs from the first line's")
    cells = {str(name): _value(str(text)) for name, text in row.items()}
    currency = cells.get("currency") or DEFAULT_CURRENCY
    balance = cells.get("balance_after")
    return StatementLine(
        line_id=cells.get("line_id") or _made_id(cells, identical),
        booked_at=_time(cells["booked_at"]),
        amount=_money(cells["amount"], currency, "amount"),
        kind=_kind(cells.get("kind")),
        reference=cells.get("reference") or None,
        provider_reference=cells.get("provider_reference") or None,
        description=cells.get("description", ""),
        balance_after=_money(balance, currency, "balance_after") if balance else None,
    )


def _value(cell: str) -> str:
    """Removes the apostrophe that our own files put before text that looks like a formula."""
    text = reading.plain(cell)
    return text[1:] if text[:1] == "'" and text[1:2] in tuple("=+-@") else text


def _made_id(cells: Mapping[str, str], identical: Counter[str]) -> str:
    """Creates an id from the row's content and its number among identical rows.

    If two files contain the same day, the day's rows get the same ids in both files.
    """
    content = "\x1f".join(f"{name}={cells[name]}" for name in sorted(cells))
    digest = hashlib.sha256(content.encode()).hexdigest()[:32]
    identical[digest] += 1
    return f"row:{digest}:{identical[digest]}"


def _time(text: str) -> datetime:
    """Parses ISO 8601 or day/month/year. A time without a zone is in Lagos time."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = _other_time(text)
    if not EARLIEST_YEAR <= moment.year <= datetime.now(LAGOS).year:
        raise _BadRow(f"booked_at {text!r} is not a time of a statement")
    return moment if moment.tzinfo else moment.replace(tzinfo=LAGOS)


def _other_time(text: str) -> datetime:
    for form in TIME_FORMATS:
        try:
            return datetime.strptime(text, form)  # noqa: DTZ007
        except ValueError:
            continue
    raise _BadRow(f"booked_at {text!r} is not a time")


def _money(text: str, currency: str, name: str) -> Money:
    try:
        return parse_signed_amount(text, currency)
    except MoneyError as error:
        raise _BadRow(f"{name} {text!r}: {error}") from None


def _kind(text: str | None) -> LineKind:
    if not text:
        return LineKind.OTHER
    try:
        return LineKind(text.lower())
    except ValueError:
        raise _BadRow(f"kind {text!r} is not one of {', '.join(LineKind)}") from None
