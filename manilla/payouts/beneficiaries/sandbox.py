"""Banks and test account numbers of the sandbox, where no provider is called."""

from manilla.providers import nigerian_banks
from manilla.providers.kind import ProviderKind
from manilla.providers.kinds import KINDS
from manilla.providers.port import Bank

# Test account numbers with a fixed outcome on every method. Payouts to all others are delivered.
FAILS = "0000000001"
INVALID = "0000000002"
STAYS_PENDING = "0000000003"
PROVIDER_POOR = "0000000004"
HOLDER = "SANDBOX BENEFICIARY"


def banks(kind: ProviderKind) -> list[Bank]:
    """Returns the sandbox's banks. Each kind of provider has its own bank codes."""
    return BANKS[kind.name]


BANKS: dict[str, list[Bank]] = {
    kind.name: [Bank(kind.sandbox_bank_code(bank), bank.name) for bank in nigerian_banks.BANKS]
    for kind in KINDS.values()
}
