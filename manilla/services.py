"""What the running programs share: opened once, closed in reverse order."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import msgspec

from manilla.kit.crypto import Keyring
from manilla.kit.db import Database
from manilla.kit.errors import Refusal, Unavailable
from manilla.merchants.directory import Directory
from manilla.methods.catalogue import Catalogue
from manilla.platform import master_key
from manilla.platform.changes import Watch
from manilla.platform.settings import CurrentSettings
from manilla.providers.rails import Rails, open_session
from manilla.settings import Settings
from manilla.sql import migrate


class DatabaseAway(Refusal):
    message = "The database of MANILLA_DATABASE_URL does not answer."


class Services(msgspec.Struct, frozen=True):
    settings: Settings
    db: Database
    keyring: Keyring
    watch: Watch
    platform: CurrentSettings
    directory: Directory
    rails: Rails
    methods: Catalogue


@contextlib.asynccontextmanager
async def opened(settings: Settings, *, name: str, connections: int) -> AsyncIterator[Services]:
    try:
        await migrate.check_ready(settings.database_url)
        db = await Database.open(settings.database_url, size=connections, name=name)
    except Unavailable as unavailable:
        raise DatabaseAway from unavailable
    keyring = Keyring(settings.master_keys)
    watch = Watch(db)
    session = open_session()
    rails = Rails(db, keyring, watch, session, is_production_mode=not settings.is_development)
    services = Services(
        settings=settings,
        db=db,
        keyring=keyring,
        watch=watch,
        platform=CurrentSettings(db, watch),
        directory=Directory(db, keyring, watch),
        rails=rails,
        methods=Catalogue(db, watch, rails),
    )
    try:
        await master_key.prove(db, keyring)
        await watch.ensure_fresh()
        background = [asyncio.create_task(watch.run()), asyncio.create_task(rails.health.run())]
        try:
            yield services
        finally:
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
    finally:
        await session.close()
        await db.close()
