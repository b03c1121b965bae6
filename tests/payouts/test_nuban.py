import pytest

from manilla.beneficiaries import beneficiary


@pytest.mark.parametrize(
    ("bank", "account", "is_right"),
    [
        ("011", "0000014579", True),  # The Central Bank of Nigeria published this example.
        ("011", "0000014578", False),
        ("058", "0000014579", False),
        ("50211", "0000014579", None),  # The bank's code does not have three digits.
        ("\u0660\u0661\u0661", "0000014579", None),  # Arabic digits are rejected
        ("011", "000001457", None),
    ],
)
def test_the_check_digit_of_an_account_number(
    bank: str, account: str, is_right: bool | None
) -> None:
    assert beneficiary.check_digit_fits(bank, account) is is_right
