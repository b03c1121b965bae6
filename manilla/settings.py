"""Settings from environment variables, which are read only when a process starts."""

import ipaddress
import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Self

import msgspec

from manilla import secret_sources
from manilla.kit import crypto, time_limits
from manilla.kit.errors import Refusal
from manilla.kit.http import Network, is_web_address
from manilla.kit.time_limits import TimeLimits
from manilla.mail.server import BadMailSetting, Sender, SmtpServer, read_sender, read_server
from manilla.variables import SECRETS

DEFAULT_DATA = ".manilla"
DRAIN_SECONDS, DRAIN_SECONDS_MAX = 5, 60


class Mode(StrEnum):
    DEVELOPMENT = "development"
    PRODUCTION = "production"


class BadConfiguration(Refusal):
    message = "The configuration is incomplete."


class Settings(msgspec.Struct, frozen=True):
    mode: Mode
    database_url: str
    migration_url: str
    master_keys: tuple[bytes, ...]
    base_url: str
    read_url: str | None = None  # a standby for reads that may use one, or None
    trusted_proxies: tuple[Network, ...] = ()
    # Folder in which tests enable crash points. Used only in development mode.
    crash_folder: Path | None = None
    smtp_server: SmtpServer | None = None
    mail_hook: str | None = None  # a program that sends emails instead of an SMTP server
    mail_from: Sender = Sender("no-reply@localhost")
    data_folder: Path | None = None  # None if the database runs on another host
    drain_seconds: int = 0  # how long connections are accepted after the stop signal
    otlp_url: str | None = None  # the collector of traces; None if tracing is off
    # For `manilla cell move`: the second cell's database, as the owner of its tables, and how the
    # second cell's PostgreSQL reaches this database, if not with the URL for migrations.
    target_url: str | None = None
    replication_url: str | None = None
    archive_folder: Path | None = None  # where `manilla archive run` writes old months
    # Where each secret comes from, without the secret.
    secret_sources: tuple[str, ...] = ()

    @property
    def is_development(self) -> bool:
        return self.mode is Mode.DEVELOPMENT

    @property
    def has_mail(self) -> bool:
        return self.smtp_server is not None or self.mail_hook is not None

    @classmethod
    def read(cls, environment: Mapping[str, str], *, assumed_mode: Mode) -> Self:
        """Reads all settings. Raises an error that lists all missing or malformed variables."""
        mode = read_mode(environment, assumed_mode)
        sources = secret_sources.describe(environment, SECRETS)
        environment = _with_secrets(environment, mode)
        problems: list[str] = []
        settings = cls(
            mode=mode,
            database_url=_needed(environment, "MANILLA_DATABASE_URL", problems),
            migration_url=environment.get("MANILLA_MIGRATION_URL", "")
            or environment.get("MANILLA_DATABASE_URL", ""),
            master_keys=_master_keys(environment, problems),
            base_url=_base_url(environment, problems),
            read_url=environment.get("MANILLA_DATABASE_READ_URL") or None,
            trusted_proxies=_proxies(environment, problems),
            crash_folder=_crash_folder(environment, mode),
            smtp_server=_smtp_server(environment, mode, problems),
            mail_hook=_mail_hook(environment, problems),
            mail_from=_mail_from(environment, problems),
            data_folder=_data_folder(environment),
            drain_seconds=_drain_seconds(environment, mode, problems),
            otlp_url=_otlp_url(environment, problems),
            target_url=environment.get("MANILLA_TARGET_DATABASE_URL") or None,
            replication_url=environment.get("MANILLA_REPLICATION_URL") or None,
            archive_folder=_archive_folder(environment),
            secret_sources=tuple(f"{name}: {source}" for name, source in sources.items()),
        )
        _raise_if_any(problems, mode)
        return settings


def _raise_if_any(problems: list[str], mode: Mode) -> None:
    if problems:
        raise BadConfiguration(f"Manilla cannot start in {mode} mode: {'; '.join(problems)}.")


def _with_secrets(environment: Mapping[str, str], mode: Mode) -> Mapping[str, str]:
    """Returns the variables with the secrets that files contain and that commands print."""
    is_production = mode is Mode.PRODUCTION
    values, problems = secret_sources.resolve(environment, SECRETS, is_production=is_production)
    _raise_if_any(problems, mode)
    return {**environment, **values}


def read_mode(environment: Mapping[str, str], assumed: Mode) -> Mode:
    text = environment.get("MANILLA_MODE") or assumed
    try:
        return Mode(text)
    except ValueError:
        raise BadConfiguration(
            f"MANILLA_MODE is {text!r}; it must be `development` or `production`."
        ) from None


def apply_limits(environment: Mapping[str, str], mode: Mode) -> None:
    """Applies the time limits that a test has set, only in development mode."""
    text = environment.get("MANILLA_TIME_LIMITS", "")
    if not text or mode is not Mode.DEVELOPMENT:
        return
    try:
        time_limits.use(msgspec.json.decode(text, type=TimeLimits))
    except msgspec.MsgspecError as error:
        raise BadConfiguration(f"MANILLA_TIME_LIMITS is invalid: {error}.") from None


def data_folder(named: Path | None) -> Path:
    return named or Path(os.environ.get("MANILLA_DATA") or DEFAULT_DATA)


def _needed(environment: Mapping[str, str], name: str, problems: list[str]) -> str:
    value = environment.get(name, "")
    if not value:
        problems.append(f"{name} is not set")
    return value


def _master_keys(environment: Mapping[str, str], problems: list[str]) -> tuple[bytes, ...]:
    """Returns the current master key, followed by previous keys during a rotation."""
    current = _needed(environment, "MANILLA_MASTER_KEY", problems)
    previous = environment.get("MANILLA_MASTER_KEYS_PREVIOUS", "").split(",")
    keys = []
    for text in filter(None, [current, *previous]):
        try:
            keys.append(crypto.decode_key(text))
        except ValueError:
            problems.append("a master key is not 32 bytes in base64 (openssl rand -base64 32)")
    return tuple(keys)


def _base_url(environment: Mapping[str, str], problems: list[str]) -> str:
    url = _needed(environment, "MANILLA_BASE_URL", problems).rstrip("/")
    if url and (not is_web_address(url) or "?" in url):
        problems.append("MANILLA_BASE_URL is not a URL such as https://pay.example.com")
    return url


def _otlp_url(environment: Mapping[str, str], problems: list[str]) -> str | None:
    url = environment.get("MANILLA_OTLP_URL", "").rstrip("/")
    if url and (not is_web_address(url) or "?" in url or "@" in url):
        problems.append("MANILLA_OTLP_URL is not a URL such as http://127.0.0.1:4318")
    return url or None


def _crash_folder(environment: Mapping[str, str], mode: Mode) -> Path | None:
    folder = environment.get("MANILLA_CRASH_FOLDER", "")
    return Path(folder) if folder and mode is Mode.DEVELOPMENT else None


def _data_folder(environment: Mapping[str, str]) -> Path | None:
    folder = environment.get("MANILLA_DATA", "")
    return Path(folder) if folder else None


def _archive_folder(environment: Mapping[str, str]) -> Path | None:
    folder = environment.get("MANILLA_ARCHIVE_FOLDER", "")
    return Path(folder) if folder else None


def _drain_seconds(environment: Mapping[str, str], mode: Mode, problems: list[str]) -> int:
    default = DRAIN_SECONDS if mode is Mode.PRODUCTION else 0
    text = environment.get("MANILLA_DRAIN_SECONDS") or str(default)
    if not (text.isascii() and text.isdigit() and int(text) <= DRAIN_SECONDS_MAX):
        problems.append(f"MANILLA_DRAIN_SECONDS is not a number from 0 to {DRAIN_SECONDS_MAX}")
        return default
    return int(text)


def _mail_hook(environment: Mapping[str, str], problems: list[str]) -> str | None:
    program = environment.get("MANILLA_MAIL_HOOK", "")
    if program and not (Path(program).is_file() and os.access(program, os.X_OK)):
        problems.append("MANILLA_MAIL_HOOK is not an executable file")
    if program and environment.get("MANILLA_SMTP_URL"):
        problems.append("MANILLA_MAIL_HOOK and MANILLA_SMTP_URL are both set; use one of them")
    return program or None


def _smtp_server(
    environment: Mapping[str, str], mode: Mode, problems: list[str]
) -> SmtpServer | None:
    url = environment.get("MANILLA_SMTP_URL", "")
    try:
        return read_server(url, is_development=mode is Mode.DEVELOPMENT) if url else None
    except BadMailSetting as problem:
        problems.append(str(problem))
        return None


def _mail_from(environment: Mapping[str, str], problems: list[str]) -> Sender:
    base_url = environment.get("MANILLA_BASE_URL", "")
    try:
        return read_sender(environment.get("MANILLA_MAIL_FROM", ""), base_url)
    except BadMailSetting as problem:
        problems.append(str(problem))
        return read_sender("", base_url)


def _proxies(environment: Mapping[str, str], problems: list[str]) -> tuple[Network, ...]:
    networks = []
    for text in filter(None, environment.get("MANILLA_TRUSTED_PROXIES", "").split(",")):
        try:
            networks.append(ipaddress.ip_network(text.strip()))
        except ValueError:
            problems.append(
                f"MANILLA_TRUSTED_PROXIES: {text.strip()!r} is not an IP address or network"
            )
    return tuple(networks)
