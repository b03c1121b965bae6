"""The same banks under several sets of codes, so that a code of another provider is noticed."""

import re

import msgspec

from manilla.providers.nigerian_banks import BANKS


class Bank(msgspec.Struct, frozen=True):
    code: str
    name: str
    institution_code: str = ""  # its code in the interbank system (NIP)

    @property
    def slug(self) -> str:
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")


Banks = dict[str, Bank]

PROVIDER_A: Banks = {
    bank.central_bank_code: Bank(bank.central_bank_code, bank.name) for bank in BANKS
}
PROVIDER_B: Banks = {
    bank.institution_code: Bank(bank.institution_code, bank.name) for bank in BANKS
}
# C's code is derived from A's: `C044`.
PROVIDER_C: Banks = {f"C{code}": Bank(f"C{code}", bank.name) for code, bank in PROVIDER_A.items()}

_CENTRAL_BANK: Banks = {
    bank.central_bank_code: Bank(bank.central_bank_code, bank.name, bank.institution_code)
    for bank in BANKS
}
KORA = MONNIFY = FLUTTERWAVE = _CENTRAL_BANK
# Besides the central bank's codes, Paystack has some of its own, not all of them numbers.
PAYSTACK: Banks = {
    **_CENTRAL_BANK,
    "035A": Bank("035A", "ALAT by WEMA", "000017"),
    "001": Bank("001", "Test Bank", "999999"),
}
