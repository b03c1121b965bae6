"""The providers' banks. Each provider has its own bank codes and rejects all other codes."""

import re

import msgspec

from manilla.banks.nigeria import SANDBOX_BANKS


class Bank(msgspec.Struct, frozen=True):
    code: str
    name: str
    institution_code: str = ""  # the bank's code in Nigeria's interbank system (NIP)

    @property
    def slug(self) -> str:
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")


Banks = dict[str, Bank]

PROVIDER_A: Banks = {bank.code: Bank(bank.code, bank.name) for bank in SANDBOX_BANKS}
PROVIDER_B: Banks = {bank.nip_code: Bank(bank.nip_code, bank.name) for bank in SANDBOX_BANKS}
# Provider C's code for a bank is provider A's code with the prefix `C`, such as `C044`.
PROVIDER_C: Banks = {f"C{code}": Bank(f"C{code}", bank.name) for code, bank in PROVIDER_A.items()}

_CENTRAL_BANK: Banks = {
    bank.code: Bank(bank.code, bank.name, bank.nip_code) for bank in SANDBOX_BANKS
}
KORA = MONNIFY = FLUTTERWAVE = _CENTRAL_BANK
# Paystack accepts the central bank's codes, and additional codes such as `035A`.
PAYSTACK: Banks = {
    **_CENTRAL_BANK,
    "035A": Bank("035A", "ALAT by WEMA", "000017"),
    "001": Bank("001", "Test Bank", "999999"),
}
