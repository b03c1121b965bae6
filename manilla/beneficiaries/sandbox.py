"""Banks and test account numbers of the sandbox, where no provider is called."""

from manilla.banks.nigeria import SANDBOX_BANKS, NigerianBank
from manilla.providers.kind import ProviderKind
from manilla.providers.kinds import KINDS
from manilla.providers.port import Bank

# Payouts to these test accounts have a fixed result. Payouts to other accounts are delivered.
FAILS = "0000000001"
INVALID = "0000000002"
STAYS_PENDING = "0000000003"
PROVIDER_POOR = "0000000004"
OTHER_NAME = "0000000005"  # the holder's name never matches the name in a payout file
HOLDER, OTHER_HOLDER = "SANDBOX BENEFICIARY", "ANOTHER SANDBOX PERSON"


def banks(kind: ProviderKind) -> list[Bank]:
    """Returns the sandbox's banks, with the bank codes of this kind of provider."""
    return BANKS[kind.name]


def has_bank(kind: ProviderKind, code: str) -> bool:
    return code in _CODES[kind.name]


def code_at(kind: ProviderKind, bank: NigerianBank) -> str | None:
    return kind.sandbox_bank_code(bank) if bank.is_in_sandbox else None


def bank_at(kind: ProviderKind, code: str) -> NigerianBank | None:
    return next((bank for bank in SANDBOX_BANKS if kind.sandbox_bank_code(bank) == code), None)


BANKS: dict[str, list[Bank]] = {
    kind.name: [Bank(kind.sandbox_bank_code(bank), bank.name) for bank in SANDBOX_BANKS]
    for kind in KINDS.values()
}
_CODES = {name: frozenset(bank.code for bank in banks) for name, banks in BANKS.items()}
