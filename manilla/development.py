"""What development mode adds where the distribution `manilla-simulator` is installed.

That distribution holds the simulated providers, the demo merchant and the demo shop. A production
installation does not have it, so the platform never imports it by name.
"""

import socket
from importlib import import_module
from typing import Any, Protocol, cast

import msgspec
from litestar import Router

from manilla.kit.crypto import Keyring
from manilla.kit.db import Database
from manilla.kit.errors import Refusal
from manilla.merchants.credentials import NewCredentials

PACKAGE = "manilla_simulator"


class NotInstalled(Refusal):
    message = "The simulator is not installed. Install the package manilla-simulator."


class Demo(msgspec.Struct, frozen=True):
    """The demo merchant, with the credentials that `manilla up` prints."""

    merchant_id: int
    name: str
    sandbox: NewCredentials
    production: NewCredentials
    simulator_url: str


class Development(Protocol):
    """The functions of `manilla_simulator.development`."""

    def shop(self, db: Database, keyring: Keyring, base_url: str) -> Router: ...

    async def seed(self, db: Database, keyring: Keyring, simulator_url: str) -> Demo | None: ...

    async def simulate(
        self, listener: socket.socket, *, mode: str, base_url: str, platform_url: str
    ) -> None: ...


def find() -> Development | None:
    """None where the distribution is not installed."""
    try:
        return required()
    except NotInstalled:
        return None


def required() -> Development:
    try:
        module: Any = import_module(f"{PACKAGE}.development")
    except ModuleNotFoundError as error:
        if error.name != PACKAGE:
            raise
        raise NotInstalled from None
    return cast(Development, module)
