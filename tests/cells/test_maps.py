"""The entries of the maps: which numbers they match, and their files."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manilla.cells import checking, maps, report
from manilla.cells.maps import Proxy
from manilla.cells.report import CellReport, EndlessReport
from manilla.kit.ids import ALPHABET, OWNER_CHARACTERS, OWNER_MAX, base32
from manilla.merchants.queries import RoutedMerchant

SPANS = st.tuples(st.integers(1, OWNER_MAX), st.integers(1, OWNER_MAX)).map(sorted)


def _report(name: str, first: int, last: int, *merchants: int) -> CellReport:
    return CellReport(
        name=name,
        base_url=f"https://{name}.example",
        first_merchant=first,
        last_merchant=last,
        accounts=["shared", f"of{name}"],
        moves={},
        merchants=[RoutedMerchant(each, "Ada", "approved", [], []) for each in merchants],
    )


@given(SPANS, st.integers(1, OWNER_MAX))
def test_prefixes_match_exactly_the_numbers_of_the_range(span: list[int], other: int) -> None:
    first, last = span
    found = list(maps.prefixes(first, last, ALPHABET, OWNER_CHARACTERS))
    for number in {first, last, other, max(first - 1, 1), min(last + 1, OWNER_MAX)}:
        text = base32(number, OWNER_CHARACTERS)
        matching = [each for each in found if text.startswith(each)]
        assert len(matching) == (first <= number <= last)


def test_a_range_of_whole_digits_is_one_prefix_per_digit() -> None:
    assert list(maps.prefixes(32**4, 2 * 32**4 - 1, ALPHABET, OWNER_CHARACTERS)) == ["001"]
    assert list(maps.prefixes(1, 9, "0123456789", 2)) == [f"0{digit}" for digit in range(1, 10)]


@given(SPANS, st.integers(1, OWNER_MAX))
def test_every_number_leads_to_its_cell_and_moved_merchants_to_theirs(
    span: list[int], moved: int
) -> None:
    first, last = span
    reports = [_report("a", first, last, moved)]
    if last < OWNER_MAX:
        reports.append(_report("b", last + 1, OWNER_MAX))
    for proxy in Proxy:
        built = maps.parse(maps.render(maps.build(reports), proxy), proxy)
        assert built.of_number(moved) == built.of_decimal(moved) == "a"
        assert built.of_number(first) == built.of_decimal(last) == "a"
        for number in {last + 1, OWNER_MAX} - {moved, OWNER_MAX + 1, last}:
            expected = "b" if number > last else "a"
            assert built.of_number(number) == built.of_decimal(number) == expected


def test_one_cell_gets_the_webhooks_of_a_shared_account() -> None:
    built = maps.build([_report("a", 1, 9), _report("b", 10, 19)])
    assert built.accounts == {"shared": "a", "ofa": "a", "ofb": "b"}


def test_a_shared_account_whose_webhooks_lead_to_no_cell_is_only_a_problem() -> None:
    reports = [_report("a", 1, 9), _report("b", 10, 19)]
    built = maps.build(reports)
    [note] = checking.find_shared_accounts(reports, built)
    assert "Its webhooks go to a, which forwards them." in note
    empty = msgspec.structs.replace(built, accounts={})
    assert [*checking.find_shared_accounts(reports, empty)] == []
    problems = [*checking.find_problems(reports, empty, Proxy.HAPROXY)]
    assert "a uses the provider account shared, but its webhooks lead to no cell." in problems


def test_a_cell_cannot_claim_merchants_that_were_not_moved_to_it() -> None:
    a, b, c = _report("a", 1, 9, 1), _report("b", 10, 19, 10, 5), _report("c", 20, 29)
    [dispute] = checking.find_disputes([a, b, c])
    assert "b reports the merchant 5. This number is in the range of a," in dispute
    assert "`manilla cell locate 5 b` in a" in dispute
    for moves in ({5: "c"}, {5: "a"}, {6: "b"}):
        other = msgspec.structs.replace(a, moves=moves)
        assert len([*checking.find_disputes([other, b, c])]) == 1
    moved = msgspec.structs.replace(a, moves={5: "b"})
    assert [*checking.find_disputes([moved, b, c])] == []
    twice = msgspec.structs.replace(c, moves={5: "b"})
    through = msgspec.structs.replace(a, moves={5: "c"})
    assert [*checking.find_disputes([through, b, twice])] == []
    elsewhere = _report("b", 10, 19, 30)
    assert "in no cell's range" in "".join(checking.find_disputes([a, elsewhere]))


def test_a_cell_cannot_claim_keys_of_another_cell() -> None:
    def of(number: int, keys: list[str], hashes: list[str]) -> RoutedMerchant:
        return RoutedMerchant(number, "Ada", "approved", keys, hashes)

    a, b = _report("a", 1, 9), _report("b", 10, 19)
    for keys, hashes in ((["0000001abc"], []), (["old"], []), ([], ["00FF"])):
        ours = msgspec.structs.replace(a, merchants=[of(1, keys, hashes)])
        theirs = msgspec.structs.replace(b, merchants=[of(10, keys, hashes)])
        [dispute] = checking.find_disputes([ours, theirs])
        assert "The merchants 1 in a and 10 in b have the same key" in dispute


@pytest.mark.parametrize(
    ("step", "last", "pages"),
    [(1, 3, 4), (0, 9, None), (-1, 9, None), (1, 10**6, None)],
    ids=["whole", "same", "back", "endless"],
)
async def test_a_report_ends(
    monkeypatch: pytest.MonkeyPatch, step: int, last: int, pages: int | None
) -> None:
    monkeypatch.setattr(report, "PAGES_MAX", 10)

    async def page(after: int) -> CellReport:
        next_after = after + step if after < last else None
        return msgspec.structs.replace(_report("a", 1, 9, after + 1), next_after=next_after)

    if pages is None:
        with pytest.raises(EndlessReport):
            await report.whole(page)
    else:
        found = await report.whole(page)
        assert [each.id for each in found.merchants] == [1, 2, 3, 4]


def test_a_host_that_two_cells_share_leads_to_neither() -> None:
    one, other = _report("a", 1, 9), _report("b", 10, 19)
    same = [one, msgspec.structs.replace(other, base_url="https://a.example:8443")]
    assert maps.build(same).hosts == {}
    assert maps.build([one, other]).hosts == {"a.example": "a", "b.example": "b"}
