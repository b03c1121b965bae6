"""Banks and test account numbers of the sandbox, where no provider is called."""

from manilla.providers import nigerian_banks
from manilla.providers.port import Bank, Provider

# Account numbers with a fixed outcome on every method; all others are delivered.
FAILS = "0000000001"
INVALID = "0000000002"
STAYS_PENDING = "0000000003"
PROVIDER_POOR = "0000000004"
HOLDER = "SANDBOX BENEFICIARY"

# Each provider has its own bank codes.
BANKS: dict[Provider, list[Bank]] = {
    Provider.A: [Bank(bank.central_bank_code, bank.name) for bank in nigerian_banks.BANKS],
    Provider.B: [Bank(bank.institution_code, bank.name) for bank in nigerian_banks.BANKS],
    Provider.C: [Bank(f"C{bank.central_bank_code}", bank.name) for bank in nigerian_banks.BANKS],
}
