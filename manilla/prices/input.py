"""Reads the lines of a plan, and tax rules, from forms and CSV files."""

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import TypeVar

from manilla.kit import amount_input
from manilla.kit.clock import LAGOS
from manilla.kit.environment import Environment
from manilla.kit.money import DECIMALS, MoneyError, amount_of
from manilla.kit.price import PriceTerms
from manilla.prices.checks import LINES_MAX, BadPrice
from manilla.prices.price import (
    PriceDirection,
    PriceLine,
    Purpose,
    TaxBase,
    TaxBearer,
    TaxCollector,
    TaxTerms,
    Way,
)

COLUMNS = (
    *("direction", "currency", "environment", "way", "method", "percent", "fixed"),
    *("waived_below", "minimum", "maximum", "round_to"),
)
_Choice = TypeVar("_Choice", bound=StrEnum)


def read_lines(text: str) -> tuple[PriceLine, ...]:
    """Parses a plan's lines: CSV with the column names `COLUMNS` in the first line.

    A missing or empty column is none, both environments, or any way or method.
    """
    reader = csv.DictReader(io.StringIO(text.strip(), newline=None))
    try:
        _check_columns(reader.fieldnames or ())
        rows = list(reader)
    except csv.Error as error:
        raise BadPrice(f"This is not a CSV file: {error}.") from None
    if len(rows) > LINES_MAX:
        raise BadPrice(f"A plan has at most {LINES_MAX} lines.")
    lines = []
    for number, row in enumerate(rows, 1):
        try:
            lines.append(_line(_Row(row)))
        except BadPrice as bad:
            raise BadPrice(f"Line {number}: {bad.text}") from None
    return tuple(lines)


def _check_columns(names: Sequence[str]) -> None:
    for name in names:
        if name not in COLUMNS:
            raise BadPrice(f"{name!r} is not a column.")
        if names.count(name) > 1:
            raise BadPrice(f"There are two columns {name!r}.")


def write_lines(lines: Iterable[PriceLine]) -> str:
    """Returns lines as `read_lines` parses them."""
    written = io.StringIO()
    out = csv.writer(written, lineterminator="\n")
    out.writerow(COLUMNS)
    for line in lines:
        terms, currency = line.terms, line.currency
        limits = (terms.waived_below_minor, terms.minimum_minor, terms.maximum_minor)
        out.writerow(
            [
                *(line.direction, currency, line.environment or "", line.way or ""),
                *(line.method or "", f"{terms.percent.normalize():f}"),
                *(_amount(terms.fixed_minor or None, currency),),
                *(_amount(minor, currency) for minor in limits),
                _amount(None if terms.step_minor == 1 else terms.step_minor, currency),
            ]
        )
    return written.getvalue()


def _amount(minor: int | None, currency: str) -> str:
    return "" if minor is None else f"{amount_of(currency, minor):f}"


def read_tax(given: Mapping[str, str | None]) -> TaxTerms:
    """Parses a tax rule from its fields, of which several values are separated by spaces."""
    row = _Row(given)
    currency = row.currency()
    return TaxTerms(
        directions=tuple(row.choices("directions", PriceDirection)),
        currency=currency,
        base=row.choice("base", TaxBase) or TaxBase.FEE,
        environment=row.choice("environment", Environment),
        percent=row.number("percent") if row.text("percent") else None,
        fixed_minor=row.minor("fixed", currency) or 0,
        threshold_minor=row.minor("threshold", currency) or 0,
        borne_by=row.choice("borne_by", TaxBearer) or TaxBearer.PAYER,
        included=row.text("included") == "yes",
        exempt=tuple(row.choices("exempt", Purpose)),
        collected_by=row.choice("collected_by", TaxCollector) or TaxCollector.US,
        returned=row.text("returned") != "no",
    )


def read_start(text: str) -> datetime | None:
    """Parses a start in Lagos time, or with an offset. Returns None for an empty text."""
    if not text:
        return None
    try:
        start = datetime.fromisoformat(text)
    except ValueError:
        raise BadPrice("Write the start such as 2026-12-01T00:00.") from None
    return (start if start.tzinfo else start.replace(tzinfo=LAGOS)).astimezone(UTC)


def _line(row: "_Row") -> PriceLine:
    if None in row.given:
        raise BadPrice("There are more values than column names.")
    currency = row.currency()
    direction = row.choice("direction", PriceDirection)
    if direction is None:
        raise BadPrice(f"The direction is one of {', '.join(PriceDirection)}.")
    return PriceLine(
        direction=direction,
        currency=currency,
        environment=row.choice("environment", Environment),
        way=row.choice("way", Way),
        method=row.text("method") or None,
        terms=PriceTerms(
            fixed_minor=row.minor("fixed", currency) or 0,
            percent=row.number("percent"),
            minimum_minor=row.minor("minimum", currency),
            maximum_minor=row.minor("maximum", currency),
            waived_below_minor=row.minor("waived_below", currency),
            step_minor=row.minor("round_to", currency) or 1,
        ),
    )


class _Row:
    """The fields of a line or a rule."""

    def __init__(self, given: Mapping[str, str | None]) -> None:
        self.given = given

    def text(self, name: str) -> str:
        return (self.given.get(name) or "").strip()

    def currency(self) -> str:
        code = self.text("currency").upper()
        if code not in DECIMALS:
            raise BadPrice(f"{code!r} is not an ISO 4217 currency.")
        return code

    def choice(self, name: str, of: type[_Choice]) -> _Choice | None:
        text = self.text(name)
        if not text:
            return None
        if text not in set(of):
            raise BadPrice(f"{name}: {text!r} is none of {', '.join(of)}.")
        return of(text)

    def choices(self, name: str, of: type[_Choice]) -> list[_Choice]:
        found = [_Row({name: word}).choice(name, of) for word in self.text(name).split()]
        return [each for each in of if each in found]

    def number(self, name: str) -> Decimal:
        text = self.text(name) or "0"
        return _parsed(name, lambda: amount_input.parse_number(text))

    def minor(self, name: str, currency: str) -> int | None:
        text = self.text(name)
        if not text:
            return None
        return _parsed(name, lambda: amount_input.parse_amount(text, currency)).minor


_Value = TypeVar("_Value")


def _parsed(name: str, parse: Callable[[], _Value]) -> _Value:
    try:
        return parse()
    except MoneyError as error:
        raise BadPrice(f"{name}: {error}") from None
