"""The configured providers, for commands that query them."""

import contextlib
from collections.abc import AsyncIterator

from manilla.cli.instance import Tools
from manilla.platform.changes import ChangeWatch
from manilla.providers.rails import Rails, open_session


@contextlib.asynccontextmanager
async def configured_rails(tools: Tools) -> AsyncIterator[Rails]:
    async with open_session() as session:
        watch = ChangeWatch(tools.db)
        rails = Rails(tools.db, tools.keyring, watch, session, is_production_mode=False)
        await rails.load()
        yield rails
