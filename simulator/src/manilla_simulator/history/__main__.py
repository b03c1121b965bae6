"""A worker that also fills in the history: `python -m manilla_simulator.history SIMULATOR_URL`.

`manilla up` runs it instead of `manilla worker` until the history is complete. It then goes on as a
worker.
"""

import asyncio
import os
import sys

import structlog

from manilla import worker
from manilla.kit import logs
from manilla.settings import Mode, Settings
from manilla.wiring import opened
from manilla_simulator.history import file
from manilla_simulator.history.clock import MovedClock
from manilla_simulator.history.filling import HistoryFiller

log = structlog.get_logger(__name__)


async def _work(settings: Settings, simulator_url: str) -> None:
    clock, stop = MovedClock(), worker.stop_on_signal()
    clock.install()
    async with opened(settings, name="manilla worker", connections=worker.CONNECTIONS) as services:
        filler = HistoryFiller(services, clock, settings.migration_url, simulator_url)
        filling = asyncio.create_task(_fill(settings, filler))
        await worker.run(services, stop, clock.adapt)
        filling.cancel()
        await asyncio.gather(filling, return_exceptions=True)


async def _fill(settings: Settings, filler: HistoryFiller) -> None:
    assert settings.data_folder is not None
    history = file.read(settings.data_folder)
    if history is None or history.is_complete:
        return
    try:
        await filler.fill(settings.data_folder, history)
    except Exception:
        # The jobs must be run nevertheless. The next start continues.
        log.exception("history_not_complete")


def main() -> None:
    logs.configure("worker")
    settings = Settings.read(os.environ, assumed_mode=Mode.PRODUCTION)
    if not settings.is_development:
        raise SystemExit("There is no demo history in production mode.")
    asyncio.run(_work(settings, sys.argv[1]))


if __name__ == "__main__":
    main()
