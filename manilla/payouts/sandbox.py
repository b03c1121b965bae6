"""The sandbox's world: banks and accounts of its own, because no provider is asked."""

from manilla.kit import nigerian_banks
from manilla.providers.port import Bank, Provider

# Account numbers that decide what happens, on any rail; every other is delivered.
FAILS = "0000000001"
INVALID = "0000000002"
STAYS_PENDING = "0000000003"
PROVIDER_POOR = "0000000004"
HOLDER = "SANDBOX BENEFICIARY"

# Each rail has codes of its own.
BANKS: dict[Provider, list[Bank]] = {
    Provider.A: [Bank(bank.central_bank_code, bank.name) for bank in nigerian_banks.BANKS],
    Provider.B: [Bank(bank.institution_code, bank.name) for bank in nigerian_banks.BANKS],
    Provider.C: [Bank(f"C{bank.central_bank_code}", bank.name) for bank in nigerian_banks.BANKS],
}
