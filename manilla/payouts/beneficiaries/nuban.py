"""The check digit of a Nigerian account number (NUBAN).

Many banks deviate from it, so a mismatch is reported but never rejected.
"""

from operator import mul

_WEIGHTS = (3, 7, 3) * 4


def fits(cbn_code: str, account_number: str) -> bool | None:
    """Whether the check digit matches; None if the bank has no three-digit code to check with."""
    if len(cbn_code) != 3 or not cbn_code.isdigit() or not _is_account(account_number):
        return None
    total: int = sum(map(mul, map(int, cbn_code + account_number[:9]), _WEIGHTS))
    return (10 - total % 10) % 10 == int(account_number[9])


def _is_account(text: str) -> bool:
    return len(text) == 10 and text.isascii() and text.isdigit()
