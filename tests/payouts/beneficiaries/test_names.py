import pytest

from manilla.beneficiaries.beneficiary import names_agree


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        ("ADA OKAFOR", "Okafor, Ada", True),
        ("ADA CHIDINMA OKAFOR", "OKAFOR ADA", True),
        ("ADAÉ OKAFOR", "adae okafor", True),
        ("ADA OKAFOR", "ADA OKAFO", False),
        ("ADA OKAFOR", "BOLA OKAFOR", False),
        ("ADA", "ADA OKAFOR", False),  # A single matching word is not enough.
        ("ADA STORES LTD", "ADA STORES LTD", True),
        ("ADA", "ADA", True),
        ("", "ADA OKAFOR", False),
    ],
)
def test_names_agree_in_any_order_and_without_middle_names(
    first: str, second: str, is_same: bool
) -> None:
    assert names_agree(first, second) is is_same
    assert names_agree(second, first) is is_same
