"""Loads the optional distributions `manilla-simulator` and `manilla-client`, if installed.

The simulator contains the simulated providers, the demo merchant and the demo shop. The client
contains tools for merchants' developers. A production installation has neither, so no other module
imports them by name.
"""

import socket
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.errors import Refusal
from manilla.merchants.credentials import NewCredentials

if TYPE_CHECKING:
    from manilla.web.serving.router import UrlHandler


class NotInstalled(Refusal):
    """An optional Python package is not installed. The error message names the package."""


class Demo(msgspec.Struct, frozen=True):
    """The demo merchant, with the credentials that `manilla up` prints."""

    merchant_id: int
    name: str
    sandbox: NewCredentials
    production: NewCredentials
    simulator_url: str


class Development(Protocol):
    """The functions of the module `manilla_simulator.development`."""

    def shop(self, db: Database, keyring: Keyring, base_url: str) -> "list[UrlHandler]": ...

    async def seed(
        self,
        db: Database,
        keyring: Keyring,
        base_url: str,
        simulator_url: str,
        history_folder: Path | None,
    ) -> Demo | None: ...

    def history_command(self, folder: Path, simulator_url: str) -> list[str] | None: ...

    async def simulate(
        self, listener: socket.socket, *, mode: str, base_url: str, platform_url: str
    ) -> None: ...


def find() -> Development | None:
    """Returns the simulator's development functions, or None if no simulator is installed."""
    try:
        return require()
    except NotInstalled:
        return None


def require() -> Development:
    return cast(Development, _load("manilla_simulator", "development", "simulator"))


def signature_tools() -> tuple[Any, Any]:
    """Returns the client package's modules for checking signatures and parsing options."""
    names = ("signature_check", "command.verify_signature")
    return tuple(_load("manilla_client", name, "client") for name in names)


def _load(package: str, name: str, title: str) -> Any:
    try:
        return import_module(f"{package}.{name}")
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        text = f"The {title} is not installed. Install the package manilla-{title}."
        raise NotInstalled(text) from None
