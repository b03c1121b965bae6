"""Tests the connection to a provider by loading our balance and the provider's bank codes."""

import asyncio

import msgspec

from manilla.banks import learning
from manilla.kit.database.connections import Database
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.providers.port import Answer, Bank, Done, Refused, Unknown
from manilla.providers.rails import Rails

CURRENCY = "NGN"


class NotConfigured(Refusal):
    message = "The provider is not configured."


class ConnectionTest(msgspec.Struct, frozen=True):
    balance: Answer[Money]
    banks: Answer[list[Bank]]

    @property
    def is_ok(self) -> bool:
        return isinstance(self.balance, Done) and isinstance(self.banks, Done)

    @property
    def problem(self) -> str:
        """The error of the first failed call, or an empty string if no call failed."""
        for answer in (self.balance, self.banks):
            if not isinstance(answer, Done):
                return problem(answer)
        return ""


async def run_test(db: Database, rails: Rails, provider: str) -> ConnectionTest:
    """Tests the connection with the credentials that are stored in the database."""
    await rails.load()
    adapter = rails.adapter(provider)
    if adapter is None:
        missing = ", ".join(rails.credentials(provider).missing)
        raise NotConfigured(f"{provider} is not configured: {missing} not set.")
    current = rails.credentials(provider)
    balance, banks = await asyncio.gather(adapter.balance(CURRENCY), adapter.banks())
    if isinstance(banks, Done) and rails.credentials(provider) == current:
        await learning.learn(db, provider, [(bank.code, bank.name) for bank in banks.value])
    return ConnectionTest(balance, banks)


def problem(answer: Refused | Unknown) -> str:
    match answer:
        case Refused():
            return f"rejected: {answer.guidance}"
        case Unknown():
            return f"no usable answer: {answer.reason}"
