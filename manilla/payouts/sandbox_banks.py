"""The banks of the sandbox, where no provider is asked: each rail has codes of its own."""

from manilla.kit import nigerian_banks
from manilla.providers.port import Bank, Provider

BANKS: dict[Provider, list[Bank]] = {
    Provider.A: [Bank(bank.central_bank_code, bank.name) for bank in nigerian_banks.BANKS],
    Provider.B: [Bank(bank.institution_code, bank.name) for bank in nigerian_banks.BANKS],
    Provider.C: [Bank(f"C{bank.central_bank_code}", bank.name) for bank in nigerian_banks.BANKS],
}
