"""A worker that also creates the history: `python -m manilla_simulator.history SIMULATOR_URL`.

`manilla up` runs this worker instead of `manilla worker` until the history is complete. When the
history is complete, the process continues as an ordinary worker.
"""

import asyncio
import os
import sys
from pathlib import Path

import structlog

from manilla import worker
from manilla.kit import logs
from manilla.settings import Mode, Settings
from manilla.wiring import open_services
from manilla_simulator.history import file
from manilla_simulator.history.clock import MovedClock
from manilla_simulator.history.file import HistoryFile
from manilla_simulator.history.filling import HistoryFiller

log = structlog.get_logger(__name__)


async def _work(settings: Settings, simulator_url: str) -> None:
    clock, stop = MovedClock(), worker.stop_on_signal()
    clock.install()
    async with open_services(
        settings, name="manilla worker", connections=worker.CONNECTIONS
    ) as services:
        filler = HistoryFiller(services, clock, settings.migration_url, simulator_url)
        assert settings.data_folder is not None
        history = file.read(settings.data_folder)
        tasks = []
        if history is not None and not history.is_complete:
            # An interrupted demo history's jobs need the moved clock, so prepare the clock first.
            await filler.prepare(history)
            tasks.append(asyncio.create_task(_fill(filler, settings.data_folder, history)))
        await worker.run(services, stop, clock.adapt)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _fill(filler: HistoryFiller, folder: Path, history: HistoryFile) -> None:
    try:
        await filler.fill(folder, history)
    except Exception:
        # The worker must run its other jobs even if creating the demo history fails.
        log.exception("history_not_complete")


def main() -> None:
    logs.configure("worker")
    settings = Settings.read(os.environ, assumed_mode=Mode.PRODUCTION)
    if not settings.is_development:
        raise SystemExit("There is no demo history in production mode.")
    asyncio.run(_work(settings, sys.argv[1]))


if __name__ == "__main__":
    main()
