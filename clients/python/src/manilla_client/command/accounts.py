"""Finds the platform's URL and the API keys in a stored profile or in environment variables."""

import argparse
import json
import os
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from manilla_client.command import private_files
from manilla_client.command.failure import CommandFailed
from manilla_client.credentials import Credentials
from manilla_client.transport import Transport

VARIABLES = {
    "url": "MANILLA_URL",
    "merchant_key": "MANILLA_MERCHANT_KEY",
    "api_key": "MANILLA_API_KEY",
    "api_secret": "MANILLA_API_SECRET",
}
FROM_VARIABLES = "environment variables"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class Account:
    """A merchant's account on a platform, with the API keys for one environment."""

    name: str  # the profile's name
    url: str
    credentials: Credentials

    @classmethod
    def of(cls, name: str, parts: dict[str, str]) -> "Account":
        if not all(part.isascii() and part.isprintable() for part in parts.values()):
            raise CommandFailed("The URL and the keys may contain only ASCII characters.")
        try:
            Transport(parts["url"], 1)  # validates the URL
            keys = Credentials(parts["merchant_key"], parts["api_key"], parts["api_secret"])
        except ValueError as error:
            raise CommandFailed(str(error)) from None
        return cls(name, parts["url"], keys)


@dataclass(slots=True)
class Profiles:
    """The profiles in the user's file, and the name of the default profile."""

    current: str | None = None
    profiles: dict[str, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def load(cls) -> "Profiles":
        content = private_files.read(_file())
        if content is None:
            return cls()
        try:
            document: Any = json.loads(content)
            return cls(document["current"], {**document["profiles"]})
        except (ValueError, KeyError, TypeError):
            raise CommandFailed(f"{_file()} is not a profile file.") from None

    def save(self) -> None:
        private_files.write(_file(), json.dumps(asdict(self), indent=2).encode())

    def add(self, account: Account) -> None:
        if account.name in self.profiles:
            raise CommandFailed(f"The profile {account.name} already exists. Remove it first.")
        self.profiles[account.name] = {"url": account.url, **asdict(account.credentials)}
        self.current = self.current or account.name
        self.save()

    def use(self, name: str) -> None:
        self.find(name)
        self.current = name
        self.save()

    def remove(self, name: str) -> None:
        self.find(name)
        del self.profiles[name]
        if self.current == name:
            self.current = None
        self.save()

    def find(self, name: str) -> Account:
        if name not in self.profiles:
            raise CommandFailed(f"There is no profile {name!r}. Add it: manilla-client profile add")
        try:
            return Account.of(name, self.profiles[name])
        except (KeyError, TypeError):
            raise CommandFailed(f"The profile {name} in {_file()} is incomplete.") from None


def add_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--profile", metavar="NAME", help="Use the keys of this profile.")


def choose(name: str | None) -> Account:
    """Returns the named profile, the account in environment variables, or the default profile."""
    if name is not None:
        return Profiles.load().find(name)
    # All four variables must be set, so that a key is never sent to the wrong platform.
    if any(os.environ.get(variable) for variable in VARIABLES.values()):
        return of_variables(FROM_VARIABLES)
    stored = Profiles.load()
    if stored.current is None:
        raise CommandFailed(
            "No profile is in use. Add one (manilla-client profile add NAME), choose one "
            f"(manilla-client profile use NAME), or set {', '.join(VARIABLES.values())}."
        )
    return stored.find(stored.current)


def of_variables(name: str) -> Account:
    parts = {part: os.environ.get(variable, "") for part, variable in VARIABLES.items()}
    missing = [VARIABLES[part] for part, value in parts.items() if not value]
    if missing:
        raise CommandFailed(f"Not set in the environment: {', '.join(missing)}.")
    return Account.of(name, parts)


def check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise CommandFailed("A profile's name has up to 64 letters, digits and the signs . _ -")
    return name


def _file() -> Path:
    return private_files.config_folder() / "profiles.json"
