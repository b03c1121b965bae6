"""A harmless try of a provider: what it holds for us, and which banks it knows."""

import asyncio

import msgspec

from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.providers.port import Answer, Bank, Done, Provider, Refused, Unknown
from manilla.providers.rails import Rails

CURRENCY = "NGN"


class NotConfigured(Refusal):
    message = "The provider is not configured."


class Trial(msgspec.Struct, frozen=True):
    balance: Answer[Money]
    banks: Answer[list[Bank]]

    @property
    def is_ok(self) -> bool:
        return isinstance(self.balance, Done) and isinstance(self.banks, Done)

    @property
    def problem(self) -> str:
        """Of the first question that was not answered."""
        for answer in (self.balance, self.banks):
            if not isinstance(answer, Done):
                return problem(answer)
        return ""


async def try_out(rails: Rails, provider: Provider) -> Trial:
    """With the credentials as they are in the database now."""
    await rails.load()
    adapter = rails.adapter(provider)
    if adapter is None:
        missing = ", ".join(rails.credentials(provider).missing)
        raise NotConfigured(f"{provider} is not configured: {missing} not set.")
    return Trial(*await asyncio.gather(adapter.balance(CURRENCY), adapter.banks()))


def problem(answer: Refused | Unknown) -> str:
    match answer:
        case Refused():
            return f"refused: {answer.guidance}"
        case Unknown():
            return f"no usable answer: {answer.reason}"
