"""Accounts at providers: a name, and the kind of provider that it belongs to."""

from manilla.kit.db import Connection, Database
from manilla.kit.errors import Refusal
from manilla.providers.kind import ProviderKind
from manilla.providers.kinds import KINDS


class UnknownProvider(Refusal):
    status, code = 404, "NOT_FOUND"
    message = "There is no such provider."


async def load(db: Database | Connection) -> dict[str, ProviderKind]:
    """Returns every account's kind by the account's name."""
    del db
    return dict(KINDS)


async def kind_of(db: Database | Connection, provider: str) -> ProviderKind:
    kinds = await load(db)
    if provider not in kinds:
        raise UnknownProvider(f"There is no provider {provider!r}; there are {', '.join(kinds)}.")
    return kinds[provider]
