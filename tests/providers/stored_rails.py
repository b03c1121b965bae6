"""Rails whose credentials are stored in the database, as in a real process."""

import contextlib
from collections.abc import AsyncIterator, Mapping

from manilla.kit.changes import ChangeWatch
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.providers import credentials
from manilla.providers.port import Adapter
from manilla.providers.rails import Rails, open_client


@contextlib.asynccontextmanager
async def stored_rails(
    db: Database, keyring: Keyring, accounts: Mapping[str, Mapping[str, str]]
) -> AsyncIterator[Rails]:
    """Stores these accounts' credentials until the end of the `with` block. All rails are up."""
    for provider, given in accounts.items():
        await credentials.clear(db, provider)
        await credentials.change(db, keyring, provider, given)
    await db.execute("UPDATE rail_state SET is_down = false WHERE is_down")
    async with open_client() as client:
        rails = Rails(db, keyring, ChangeWatch(db), client, is_production_mode=False)
        await rails.load()
        yield rails
    for provider in accounts:
        await credentials.clear(db, provider)


def adapter(rails: Rails, provider: str) -> Adapter:
    found = rails.adapter(provider)
    assert found is not None
    return found
