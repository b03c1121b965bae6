"""Keyset pagination: the server validates cursors and filters from clients."""

from datetime import UTC, datetime

import msgspec
import pytest

from manilla.kit import listing
from manilla.kit.listing import BadCursor, BadFilter, Conditions, Moment, Number
from manilla.ledger import trx_ids
from manilla.notify import notification_ids
from manilla.notify.notification_ids import NOTIFICATION_IDS


class _Filter(msgspec.Struct, frozen=True):
    search: str | None = None
    since: Moment | None = None
    minor: Number | None = None
    flag: bool | None = None


MOMENT = datetime(2026, 2, 3, 4, 5, 6, 789000, UTC)


@pytest.mark.parametrize("key", [("TXN1",), (MOMENT, "x")])
def test_a_cursor_decodes_to_its_key(key: tuple[object, ...]) -> None:
    kind = tuple[str] if len(key) == 1 else tuple[datetime, str]
    assert listing.read_cursor(kind, listing.cursor(key)) == key


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "é",
        "%%%",
        "A" * 1000,
        listing.cursor("not a tuple"),
        listing.cursor(("a", "b")),
        listing.cursor(("\x00",)),
        listing.cursor((5,)),
        listing.cursor(None),
    ],
)
def test_an_invalid_cursor_is_rejected(text: str) -> None:
    with pytest.raises(BadCursor) as refused:
        listing.read_cursor(tuple[str], text)
    assert refused.value.status == 400


@pytest.mark.parametrize("number", [2**63, -(2**63), 2**80])
def test_a_number_too_large_for_the_database_is_rejected(number: int) -> None:
    with pytest.raises(BadCursor):
        listing.read_cursor(int, listing.cursor(number))


def test_a_time_without_a_time_zone_is_rejected() -> None:
    with pytest.raises(BadCursor):
        listing.read_cursor(tuple[datetime, str], listing.cursor(("2026-01-01T00:00:00", "x")))


def test_a_filter_is_read_from_a_form() -> None:
    given = {
        "search": "  50% ",
        "since": "2026-02-03T04:05:06.789Z",
        "minor": "7",
        "flag": "true",
        "x": "",
    }
    assert listing.read_filter(_Filter, given) == _Filter("50%", MOMENT, 7, True)
    assert listing.read_filter(_Filter, {"search": " ", "other": "1"}) == _Filter()


@pytest.mark.parametrize(
    "given",
    [
        {"since": "yesterday"},
        {"since": "2026-01-01T00:00:00"},
        {"minor": "-1"},
        {"minor": str(2**63)},
        {"minor": "1.5"},
        {"flag": "maybe"},
        {"search": "a\x00b"},
    ],
)
def test_an_impossible_filter_is_rejected(given: dict[str, str]) -> None:
    with pytest.raises(BadFilter) as refused:
        listing.read_filter(_Filter, given)
    assert refused.value.status == 400


@pytest.mark.parametrize("text", ["\x00", "a\nb", "x" * 201])
def test_an_impossible_search_is_rejected(text: str) -> None:
    with pytest.raises(BadFilter):
        listing.search_text(text)


def test_values_are_never_interpolated_into_sql() -> None:
    conditions = Conditions().add("a = {}", "'; DROP").add_given("b = {}", None)
    conditions.add("({}, {}) < (c, d)", 1, 2)
    assert conditions.sql == "a = $1 AND ($2, $3) < (c, d)"
    assert conditions.values == ["'; DROP", 1, 2]
    assert Conditions().sql == "true"


def test_an_id_contains_its_creation_time() -> None:
    now = datetime.now(UTC)
    # Ids contain the time in milliseconds.
    before = now.replace(microsecond=now.microsecond // 1000 * 1000)
    trx_id, notification_id = trx_ids.new(7), notification_ids.new(7)
    for moment in (trx_ids.moment_of(trx_id), NOTIFICATION_IDS.moment_of(notification_id)):
        assert moment is not None
        assert before <= moment <= datetime.now(UTC)
    assert trx_ids.moment_of(trx_ids.floor(MOMENT)) == MOMENT
    assert NOTIFICATION_IDS.moment_of(NOTIFICATION_IDS.floor(MOMENT)) == MOMENT
    assert trx_ids.floor(before) <= trx_id
    assert NOTIFICATION_IDS.floor(before) <= notification_id


@pytest.mark.parametrize(
    "text", ["", "TXN", "TXN123", "XYZ0000000000", "TXNzzzzzzzzzz", "TXN" + "Z" * 10]
)
def test_text_that_is_not_an_id_has_no_time(text: str) -> None:
    assert trx_ids.moment_of(text) is None
