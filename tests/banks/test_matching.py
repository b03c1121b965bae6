"""A provider's bank list is matched to banks by code and name, if the match is certain."""

import string

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from manilla_simulator import banks as simulated

from manilla.banks.matching import Doubt, Match, MatchedBy, match
from manilla.banks.nigeria import BANKS, BY_CODE
from tests.support.strategies import texts

SIMULATED = {
    "providera": simulated.PROVIDER_A,
    "providerb": simulated.PROVIDER_B,
    "providerc": simulated.PROVIDER_C,
    "kora": simulated.KORA,
    "monnify": simulated.MONNIFY,
    "flutterwave": simulated.FLUTTERWAVE,
    "paystack": simulated.PAYSTACK,
}


def single(code: str, name: str) -> Match:
    return match([(code, name)], {})[code]


@pytest.mark.parametrize("kind", SIMULATED)
def test_every_bank_of_a_simulated_provider_is_matched(kind: str) -> None:
    listed = [(bank.code, bank.name) for bank in SIMULATED[kind].values()]
    matches = match(listed, {})
    unmatched = {entry.name for entry in matches.values() if entry.bank is None}
    assert unmatched == ({"Test Bank"} if kind == "paystack" else set())
    for entry in matches.values():
        assert entry.bank is None or BY_CODE[entry.bank].name.casefold() == entry.name.casefold()
    by = MatchedBy.NAME if kind == "providerc" else MatchedBy.CODE
    assert {entry.matched_by for entry in matches.values() if entry.bank} == {by}


@pytest.mark.parametrize(
    ("code", "name", "bank", "by"),
    [
        ("058", "GTBank Plc", "058", MatchedBy.CODE),
        ("000013", "GTBANK PLC", "058", MatchedBy.CODE),
        ("103", "Globus Bank", "00103", MatchedBy.CODE),
        ("090405", "Rolez Microfinance Bank", "50515", MatchedBy.CODE),
        ("100004", "PAYCOM", "999992", MatchedBy.CODE),
        ("MFB51322", "Uhuru MFB", "51322", MatchedBy.CODE),
        # The word "Guaranty" occurs in the name of only one bank.
        ("058", "Guaranty Holding", "058", MatchedBy.CODE),
        ("35", "Zenith Bank", "057", MatchedBy.NAME),
        ("gtb", "Guaranty Trust Bank", "058", MatchedBy.NAME),
        ("327", "Pagatech", "100002", MatchedBy.NAME),
    ],
)
def test_a_bank_is_matched_by_its_code_and_otherwise_by_its_name(
    code: str, name: str, bank: str, by: MatchedBy
) -> None:
    assert single(code, name) == Match(name, bank, by)


# Real providers' bank lists contain or have contained these entries.
@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("501", "Fortis Microfinance Bank"),  # 501 is the code of FSDH
        ("303", "ChamsMobile"),  # 303 is Lotus Bank's code
        ("302", "Eartholeum"),  # 302 is the code of TAJBank
        ("562", "Ekondo Microfinance Bank"),  # 562 is the code of Greenwich
        ("090175", "Test bank"),  # 090175 is the code of Rubies
        ("044", "Zenith Bank"),
        ("058", ""),
        ("058", "\u0415cobank"),
        ("058", "First Trust Bank"),  # The word "Trust" occurs in several bank names.
    ],
)
def test_a_code_with_a_name_that_is_not_the_banks_is_not_matched(code: str, name: str) -> None:
    assert single(code, name) == Match(name, doubt=Doubt.CONTRADICTION)


@pytest.mark.parametrize("name", ["", "Bank", "Sterling Microfinance Bank", "Zenit Bank", "\u202e"])
def test_an_unknown_code_with_an_unknown_name_is_not_matched(name: str) -> None:
    assert single("X1", name) == Match(name)


def test_two_codes_for_one_bank_are_both_unmatched() -> None:
    found = match([("51113", "Safe Haven MFB"), ("951113", "Safe Haven Microfinance Bank")], {})
    assert {entry.doubt for entry in found.values()} == {Doubt.DUPLICATE}
    assert {entry.bank for entry in found.values()} == {None}


def test_one_code_with_two_names_is_unmatched() -> None:
    found = match([("044", "Access Bank"), ("044", "Zenith Bank"), ("044", "Access Bank")], {})
    assert found == {"044": Match("Access Bank", doubt=Doubt.DUPLICATE)}


def test_an_entry_that_is_listed_twice_is_one_entry() -> None:
    found = match([("044", "Access Bank"), ("044", "ACCESS BANK PLC")], {})
    assert found == {"044": Match("Access Bank", "044", MatchedBy.CODE)}


def test_a_decision_stays_and_takes_the_bank_from_automatic_matches() -> None:
    mapped = Match("Zenith Main", "057", MatchedBy.MANUAL)
    found = match([("Z1", "Zenith Main"), ("057", "Zenith Bank")], {"Z1": mapped})
    assert found["Z1"] == mapped
    assert found["057"] == Match("Zenith Bank", doubt=Doubt.DUPLICATE)


def test_a_code_that_an_administrator_unmapped_stays_unmapped() -> None:
    none = Match("Access Bank", None, MatchedBy.MANUAL)
    assert match([("044", "ACCESS BANK")], {"044": none})["044"].bank is None


def test_a_code_mapped_manually_that_gets_another_name_is_in_doubt_until_confirmed() -> None:
    mapped = Match("Zenith Main", "057", MatchedBy.MANUAL)
    renamed = match([("Z1", "Access Bank")], {"Z1": mapped})["Z1"]
    assert renamed == Match("Access Bank", "057", MatchedBy.MANUAL, Doubt.RENAMED)
    assert match([("Z1", "Access Bank")], {"Z1": renamed})["Z1"] == renamed
    assert match([("Z1", "ZENITH MAIN")], {"Z1": mapped})["Z1"].doubt is None
    assert match([("Z1", "Zenith Bank Plc")], {"Z1": mapped})["Z1"].doubt is None


def test_a_code_that_is_not_listed_any_more_keeps_its_bank() -> None:
    known = match([("044", "Access Bank"), ("057", "Zenith Bank")], {})
    found = match([("057", "Zenith Bank")], known)
    assert found["044"] == msgspec.structs.replace(known["044"], is_listed=False)
    assert match([("044", "Access Bank"), ("057", "Zenith Bank")], found) == known


NAMES = st.one_of(
    st.sampled_from([name for bank in BANKS for name in bank.names]),
    texts(max_size=20),
    st.text(alphabet=string.ascii_letters + " ", max_size=20),
)
CODES = st.one_of(
    st.sampled_from([code for bank in BANKS for code in bank.codes]), texts(max_size=6)
)
LISTS = st.lists(st.tuples(CODES, NAMES), max_size=30)


@given(LISTS, LISTS)
def test_no_list_gives_one_bank_two_codes_and_matching_again_changes_nothing(
    first: list[tuple[str, str]], second: list[tuple[str, str]]
) -> None:
    found = match(second, match(first, {}))
    used = [entry.bank for entry in found.values() if entry.bank and entry.is_listed]
    assert len(used) == len(set(used))
    assert {code for code, entry in found.items() if entry.is_listed} == {c for c, _ in second}
    assert match(second, found) == found
