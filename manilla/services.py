"""What the running programs share: opened once, closed in reverse order."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import msgspec

from manilla.kit.crypto import Keyring
from manilla.kit.db import Database
from manilla.merchants.directory import Directory
from manilla.platform import master_key
from manilla.platform.changes import Watch
from manilla.platform.settings import CurrentSettings
from manilla.settings import Settings


class Services(msgspec.Struct, frozen=True):
    settings: Settings
    db: Database
    keyring: Keyring
    watch: Watch
    platform: CurrentSettings
    directory: Directory


@contextlib.asynccontextmanager
async def opened(settings: Settings, *, name: str, connections: int) -> AsyncIterator[Services]:
    db = await Database.open(settings.database_url, size=connections, name=name)
    keyring = Keyring(settings.master_keys)
    watch = Watch(db)
    services = Services(
        settings=settings,
        db=db,
        keyring=keyring,
        watch=watch,
        platform=CurrentSettings(db, watch),
        directory=Directory(db, keyring, watch),
    )
    try:
        await master_key.prove(db, keyring)
        await watch.ensure_fresh()
        watching = asyncio.create_task(watch.run())
        try:
            yield services
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
    finally:
        await db.close()
