"""The entry points that the platform calls in development mode; see `manilla.development`.

Each entry point imports its modules when it is called, because each runs in a different process.
"""

import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from manilla.development import Demo
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.merchants import credentials
from manilla_simulator.history import file
from manilla_simulator.settings import CredentialsA, CredentialsB, CredentialsC, SimulatorSettings

if TYPE_CHECKING:
    from manilla.web.serving.router import UrlHandler

WEMA_BANK = "000017"  # provider B's bank code for Wema Bank


def shop(db: Database, keyring: Keyring, base_url: str) -> "list[UrlHandler]":
    """Returns the routes of the demo shop, which uses the demo merchant's sandbox credentials."""
    from manilla_simulator.shop import routes

    return routes.build(db, base_url, credentials.derive(keyring, Environment.SANDBOX))


async def seed(
    db: Database,
    keyring: Keyring,
    base_url: str,
    simulator_url: str,
    history_folder: Path | None,
) -> Demo | None:
    """Creates the demo merchant, and configures the providers to use the simulator.

    A new demo merchant's history is recorded in `history_folder`. If the folder is None, the
    merchant gets no history. Returns None if the demo merchant's keys were rotated.
    """
    from manilla_simulator import demo
    from manilla_simulator.history import balances

    simulated = {
        "providera": (f"{simulator_url}/a", CredentialsA()),
        "providerb": (f"{simulator_url}/b", CredentialsB()),
        "providerc": (f"{simulator_url}/c", CredentialsC()),
    }
    for provider, (url, keys) in simulated.items():
        given = {key: value for key, value in msgspec.to_builtins(keys).items() if value}
        if provider == "providerb":
            given["default_va_bank"] = WEMA_BANK
        await demo.ensure_provider(db, keyring, provider, {**given, "base_url": url})
    found = await demo.ensure(db, keyring, base_url, simulator_url, history_folder)
    await balances.restore(db, {name: url for name, (url, _) in simulated.items()})
    return found


def history_command(folder: Path, simulator_url: str) -> list[str] | None:
    """Returns the command that starts the history worker, or None if the history is complete."""
    history = file.read(folder)
    if history is None or history.is_complete:
        return None
    return [sys.executable, "-m", "manilla_simulator.history", simulator_url]


async def simulate(listener: socket.socket, *, mode: str, base_url: str, platform_url: str) -> None:
    """Serves the simulated providers until the process receives a stop signal."""
    from manilla_simulator import program

    settings = SimulatorSettings(mode=mode, base_url=base_url, webhook_base_url=platform_url)
    await program.run(settings, listener)
