"""The list of Nigerian banks is consistent, and each name identifies exactly one bank."""

import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from manilla.banks import names
from manilla.banks.nigeria import BANKS, BY_ANY_CODE, BY_CODE, SANDBOX_BANKS
from tests.support.strategies import texts

KINDS = {
    *("commercial", "merchant", "non-interest", "microfinance"),
    *("payment-service", "mobile-money", "mortgage", "finance"),
}


def test_no_two_banks_share_a_code() -> None:
    codes = [code for bank in BANKS for code in bank.codes]
    assert len(codes) == len(set(codes))
    assert all(code.isalnum() and code == code.strip() for code in codes)


def test_no_two_banks_share_a_name_even_after_normalization() -> None:
    owners = {(names.key(name), bank.code) for bank in BANKS for name in bank.names}
    assert len(owners) == len({key for key, _ in owners})
    assert "" not in {key for key, _ in owners}


def test_every_bank_has_a_kind_and_the_list_is_in_the_order_of_names() -> None:
    assert {bank.kind for bank in BANKS} == KINDS
    assert [bank.name for bank in BANKS] == sorted((bank.name for bank in BANKS), key=str.casefold)


def test_interbank_codes_have_six_digits() -> None:
    for bank in BANKS:
        assert not bank.nip_code or (len(bank.nip_code) == 6 and bank.nip_code.isdigit())


@pytest.mark.parametrize(
    ("code", "nip_code", "name"),
    [
        ("058", "000013", "Guaranty Trust Bank"),
        ("044", "000014", "Access Bank"),
        ("063", "000005", "Access Bank (Diamond)"),
        ("00103", "000027", "Globus Bank"),
        ("50211", "090267", "Kuda Microfinance Bank"),
        ("50515", "090405", "Moniepoint MFB"),
        ("999992", "100004", "OPay"),
        ("999991", "100033", "PalmPay"),
        ("100002", "100002", "Paga"),
        ("120003", "120003", "MTN MoMo PSB"),
        ("501", "400001", "FSDH Merchant Bank"),
    ],
)
def test_well_known_banks_have_their_codes(code: str, nip_code: str, name: str) -> None:
    bank = BY_CODE[code]
    assert (bank.nip_code, bank.name) == (nip_code, name)
    assert BY_ANY_CODE[nip_code] == bank


def test_every_sandbox_bank_has_all_codes_that_the_sandbox_needs() -> None:
    assert len(SANDBOX_BANKS) == 33
    assert all(bank.code and bank.nip_code for bank in SANDBOX_BANKS)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("GTBANK PLC", "058"),
        ("GTB", "058"),
        ("Guaranty Trust Bank (GTBank)", "058"),
        ("  guaranty   trust  ", "058"),
        # Without the part in parentheses, this text is not a bank's name.
        ("UNITED BANK FOR AFRICA (UBA) PLC", None),
        ("United Bank For Africa (UBA)", "033"),
        ("FCMB", "214"),
        ("First City Monument Bank Plc", "214"),
        ("First Bank of Nigeria Limited", "011"),
        ("STANBICIBTC BANK", "221"),
        ("Skye Bank", "076"),
        ("Diamond Bank", "063"),
        ("ACCESS(DIAMOND) BANK", "063"),
        ("Access Bank", "044"),
        ("Access Bank (Zenith)", None),
        ("Kuda Bank", "50211"),
        ("KUDA MICROFINANCE BANK LTD", "50211"),
        ("Kuda Micro Finance Bank", "50211"),
        ("Kuda MF Bank", "50211"),
        ("Rolez Microfinance Bank", "50515"),
        ("OPay Digital Services Limited (OPay)", "999992"),
        ("Smartcash Payment Service Bank", "120004"),
        ("Sterling Bank", "232"),
        ("Sterling Microfinance Bank", None),
        ("Sterling Mobile", "100022"),
        ("Zenith", "057"),
        ("Zenit Bank", None),
        ("Zénith Bank", None),
        ("Zen\u0456th Bank", None),  # contains a Cyrillic i
        ("Zen\u200bith Bank", None),  # The name contains an invisible character.
        ("\uff3aenith Bank", "057"),  # A full-width Z is treated like an ordinary Z.
        ("Bank of Nigeria", None),
        ("Bank", None),
        ("", None),
        ("()", None),
        ("zenith" * 10_000, None),
    ],
)
def test_a_name_is_a_bank_only_if_it_is_exactly_one_of_its_names(
    text: str, code: str | None
) -> None:
    found = names.find_bank(text)
    assert (found.code if found else None) == code


@given(st.sampled_from(BANKS), st.text(alphabet=string.ascii_lowercase, min_size=1, max_size=8))
@example(BY_CODE["232"], "mobile")
@example(BY_CODE["214"], "mfb")
def test_a_name_with_another_word_is_never_taken_for_the_bank(bank, word) -> None:  # type: ignore[no-untyped-def]
    if word in names._DROPPED:
        return
    found = names.find_bank(f"{bank.name} {word}")
    known = {names.key(name) for name in found.names} if found else set()
    assert found is None or names.key(f"{bank.name} {word}") in known


@given(texts())
def test_any_text_can_be_searched(text: str) -> None:
    assert names.find_bank(text) is None or names.find_bank(text) in BANKS
    assert len(names.search(text, 5)) <= 5


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("gtb", "Guaranty Trust Bank"),
        ("zen", "Zenith Bank"),
        ("058", "Guaranty Trust Bank"),
        ("skye", "Polaris Bank"),
        ("monie", "Moniepoint MFB"),
        ("opay", "OPay"),
    ],
)
def test_a_picker_finds_banks_by_a_part_of_a_name_or_code(text: str, first: str) -> None:
    assert names.search(text, 5)[0].name == first


def test_a_search_for_nothing_finds_nothing() -> None:
    assert names.search("", 5) == names.search("…", 5) == names.search("bank", 0) == []
