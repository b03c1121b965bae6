"""The check digit of a Nigerian account number (NUBAN).

Many banks deviate from it, so a mismatch is reported but never rejected.
"""

from operator import mul

_WEIGHTS = (3, 7, 3) * 4
_VALUES = bytes.maketrans(b"0123456789", bytes(range(10)))


def fits(cbn_code: str, account_number: str) -> bool | None:
    """Whether the check digit matches; None if the bank has no three-digit code to check with."""
    if not _is_number(cbn_code, 3) or not _is_number(account_number, 10):
        return None
    digits = (cbn_code + account_number).encode().translate(_VALUES)
    total: int = sum(map(mul, digits, _WEIGHTS))
    return (10 - total % 10) % 10 == digits[-1]


def _is_number(text: str, digits: int) -> bool:
    return len(text) == digits and text.isascii() and text.isdigit()
