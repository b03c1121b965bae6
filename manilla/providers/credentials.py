"""Providers' credentials: set by administrators, encrypted, and validated together."""

from collections.abc import Mapping
from typing import Any

import msgspec

from manilla.audit import audit
from manilla.kit.crypto import Keyring
from manilla.kit.db import Connection, Database, transaction_of
from manilla.kit.errors import Refusal
from manilla.kit.http import is_web_address
from manilla.kit.sealed import SealedColumn
from manilla.platform import changes
from manilla.providers import queries
from manilla.providers.port import Direction, Provider

VALUE_LENGTH_MAX = 500


class CredentialField(msgspec.Struct, frozen=True):
    name: str
    is_secret: bool = True
    is_required: bool = False
    is_switch: bool = False
    default: str = ""


def _switch(name: str, default: str) -> CredentialField:
    return CredentialField(name, is_secret=False, is_switch=True, default=default)


def _base_url(host: str) -> CredentialField:
    return CredentialField("base_url", is_secret=False, default=f"https://api.{host}.example")


FIELDS: dict[Provider, tuple[CredentialField, ...]] = {
    Provider.A: (
        CredentialField("public_key"),
        CredentialField("secret_key", is_required=True),
        CredentialField("encryption_key"),
        CredentialField("webhook_secret", is_required=True),
        _switch("sandbox", "false"),
        _base_url("providera"),
    ),
    Provider.B: (
        CredentialField("api_key", is_required=True),
        CredentialField("secret_key", is_required=True),
        CredentialField("webhook_secret"),
        CredentialField("business_id", is_secret=False, is_required=True),
        CredentialField("default_va_bank", is_secret=False),
        _switch("sandbox", "false"),
        _switch("pay_in_enabled", "true"),
        _switch("pay_out_enabled", "true"),
        _base_url("providerb"),
    ),
    Provider.C: (
        CredentialField("secret_key", is_required=True),
        CredentialField("api_key"),
        CredentialField("public_key"),
        CredentialField("webhook_secret", is_required=True),
        _switch("sandbox", "false"),
        _switch("pay_in_enabled", "true"),
        _switch("pay_out_enabled", "true"),
        _base_url("providerc"),
    ),
}


# Another name for the same setting.
ALIASES = {(Provider.C, "secret_key"): "api_key"}


class BadCredentials(Refusal):
    status, code = 400, "VALIDATION_FAILED"
    message = "The provider does not have this setting."


class Credentials(msgspec.Struct, frozen=True):
    """One provider's current settings; settings that are not set have their default."""

    provider: Provider
    given: Mapping[str, str]

    def value(self, name: str) -> str:
        field = _field(self.provider, name)
        alias = ALIASES.get((self.provider, name), "")
        return self.given.get(name) or self.given.get(alias) or field.default

    def is_on(self, name: str) -> bool:
        return self.value(name) == "true"

    @property
    def missing(self) -> list[str]:
        required = [field.name for field in FIELDS[self.provider] if field.is_required]
        return [name for name in required if not self.value(name)]

    @property
    def is_valid(self) -> bool:
        return not self.missing

    @property
    def is_sandbox(self) -> bool:
        return self.is_on("sandbox")

    def is_open(self, direction: Direction) -> bool:
        """Whether the credentials are complete and this direction is not disabled."""
        switch = f"{direction}_enabled"
        has_switch = any(field.name == switch for field in FIELDS[self.provider])
        return self.is_valid and (not has_switch or self.is_on(switch))

    @property
    def webhook_secret(self) -> str:
        """Provider B signs with its secret key if no webhook secret is set."""
        own = self.value("webhook_secret")
        return own or (self.value("secret_key") if self.provider is Provider.B else "")

    @property
    def secrets(self) -> list[str]:
        secret = {field.name for field in FIELDS[self.provider] if field.is_secret}
        return [text for name, text in self.given.items() if name in secret]

    def shown(self) -> dict[str, Any]:
        """Returns the settings for display: secrets as `set` or None."""
        return {
            field.name: _shown(field, self.given.get(field.name)) for field in FIELDS[self.provider]
        }


async def change(
    db: Database | Connection, keyring: Keyring, provider: Provider, wanted: Mapping[str, str]
) -> Credentials:
    """Sets the named values and keeps the others. An empty value unsets."""
    check(provider, wanted)
    async with transaction_of(db) as connection:
        await changes.announce(connection, changes.PROVIDERS)
        sealed = await queries.lock_sealed_credentials(connection, provider)
        before = _open(keyring, provider, sealed) if sealed else Credentials(provider, {})
        given = {name: text for name, text in {**before.given, **wanted}.items() if text}
        check_aliases(provider, given)
        after = Credentials(provider, given)
        await _store(connection, keyring, after)
        if changed := _difference(before, after):
            await audit.record(
                connection, "provider.change", f"provider:{provider}", changed=changed
            )
    return after


async def clear(db: Database | Connection, provider: Provider) -> None:
    async with transaction_of(db) as connection:
        await changes.announce(connection, changes.PROVIDERS)
        if await queries.delete_credentials(connection, provider):
            await audit.record(connection, "provider.clear", f"provider:{provider}")


def _difference(before: Credentials, after: Credentials) -> dict[str, Any]:
    """Returns what has changed; of a secret, only that it has changed."""
    was, now = before.shown(), after.shown()
    return {
        field.name: {"before": was[field.name], "after": now[field.name]}
        for field in FIELDS[after.provider]
        if before.given.get(field.name) != after.given.get(field.name)
    }


async def load(db: Database | Connection, keyring: Keyring) -> dict[Provider, Credentials]:
    sealed = await queries.sealed_credentials(db)
    return {
        provider: _open(keyring, provider, sealed[provider])
        if provider in sealed
        else Credentials(provider, {})
        for provider in Provider
    }


async def _store(connection: Connection, keyring: Keyring, credentials: Credentials) -> None:
    secret = msgspec.json.encode(credentials.given)
    sealed = keyring.seal(secret, _context(credentials.provider))
    await queries.store_sealed_credentials(connection, credentials.provider, sealed)


def _open(keyring: Keyring, provider: Provider, sealed: bytes) -> Credentials:
    secret = keyring.open(sealed, _context(provider))
    return Credentials(provider, msgspec.json.decode(secret, type=dict[str, str]))


def _context(provider: str) -> str:
    return f"provider_credentials:{provider}"


SEALED = SealedColumn(
    "provider_credentials", "sealed", ("provider",), lambda row: _context(row["provider"])
)


def _field(provider: Provider, name: str) -> CredentialField:
    for field in FIELDS[provider]:
        if field.name == name:
            return field
    names = ", ".join(field.name for field in FIELDS[provider])
    raise BadCredentials(f"{provider} has no setting {name!r}; it has {names}.")


def check(provider: Provider, wanted: Mapping[str, str]) -> None:
    for name, value in wanted.items():
        _check(provider, name, value)
    check_aliases(provider, wanted)


def check_aliases(provider: Provider, given: Mapping[str, str]) -> None:
    """Rejects a setting and its alias with different values: one of them would be ignored."""
    for (owner, name), alias in ALIASES.items():
        values = {given[key] for key in (name, alias) if given.get(key)}
        if owner is provider and len(values) > 1:
            raise BadCredentials(
                f"{alias} is another name for {name}: set both to the same value, or unset one."
            )


def _check(provider: Provider, name: str, value: str) -> None:
    field = _field(provider, name)
    if len(value) > VALUE_LENGTH_MAX or not (value.isascii() and value.isprintable()):
        raise BadCredentials(
            f"{name} can have at most {VALUE_LENGTH_MAX} printable ASCII characters."
        )
    if field.is_switch and value not in ("", "true", "false"):
        raise BadCredentials(f"{name} must be `true` or `false`.")
    if name == "base_url" and value and (not is_web_address(value) or "?" in value or "@" in value):
        raise BadCredentials("base_url must be a URL such as https://api.example.com.")


def _shown(field: CredentialField, value: str | None) -> str | bool | None:
    if field.is_switch:
        return (value or field.default) == "true"
    if field.is_secret:
        return "set" if value else None
    return value or field.default or None
