"""Validates, encrypts and stores the providers' credentials, which administrators set."""

from collections.abc import Mapping
from typing import Any

import msgspec

from manilla.audit import audit
from manilla.kit import changes
from manilla.kit.crypto import Keyring, SealedColumn
from manilla.kit.database.connections import Connection, Database, transaction_of
from manilla.kit.errors import Refusal
from manilla.kit.http import is_web_address
from manilla.providers import accounts, queries
from manilla.providers.kind import Credentials, ProviderKind

VALUE_LENGTH_MAX = 500


class BadCredentials(Refusal):
    status, code = 400, "VALIDATION_FAILED"
    message = "The provider does not have this setting."


async def change(
    db: Database | Connection, keyring: Keyring, provider: str, wanted: Mapping[str, str]
) -> Credentials:
    """Sets the given values and keeps all other values. An empty string deletes a value."""
    async with transaction_of(db) as connection:
        kind = await accounts.kind_of(connection, provider)
        check(kind, wanted)
        await changes.announce(connection, changes.PROVIDERS)
        sealed = await queries.lock_sealed_credentials(connection, provider)
        before = _open(keyring, Credentials(provider, kind), sealed)
        given = {name: text for name, text in {**before.given, **wanted}.items() if text}
        check_aliases(kind, given)
        after = Credentials(provider, kind, given)
        await _store(connection, keyring, after)
        if changed := _difference(before, after):
            await audit.record(
                connection, "provider.change", f"provider:{provider}", changed=changed
            )
    return after


async def clear(db: Database | Connection, provider: str) -> None:
    async with transaction_of(db) as connection:
        await changes.announce(connection, changes.PROVIDERS)
        if await queries.delete_credentials(connection, provider):
            await audit.record(connection, "provider.clear", f"provider:{provider}")


def _difference(before: Credentials, after: Credentials) -> dict[str, Any]:
    """Returns the changed values. For a secret, returns only whether it is set."""
    was, now = before.shown(), after.shown()
    return {
        field.name: {"before": was[field.name], "after": now[field.name]}
        for field in after.kind.fields
        if before.given.get(field.name) != after.given.get(field.name)
    }


async def load(db: Database | Connection, keyring: Keyring) -> dict[str, Credentials]:
    """Returns a mapping from each account's name to its credentials."""
    sealed = await queries.sealed_credentials(db)
    return {
        provider: _open(keyring, Credentials(provider, kind), sealed.get(provider))
        for provider, kind in (await accounts.load(db)).items()
    }


async def usable(db: Database | Connection, keyring: Keyring) -> list[str]:
    """Returns the names of the accounts whose credentials are complete."""
    found = await load(db, keyring)
    return [name for name, each in found.items() if each.given and each.is_valid]


async def _store(connection: Connection, keyring: Keyring, credentials: Credentials) -> None:
    secret = msgspec.json.encode(credentials.given)
    sealed = keyring.seal(secret, _context(credentials.provider))
    await queries.store_sealed_credentials(connection, credentials.provider, sealed)


def _open(keyring: Keyring, empty: Credentials, sealed: bytes | None) -> Credentials:
    if sealed is None:
        return empty
    secret = keyring.open(sealed, _context(empty.provider))
    given = msgspec.json.decode(secret, type=dict[str, str])
    return msgspec.structs.replace(empty, given=given)


def _context(provider: str) -> str:
    return f"provider_credentials:{provider}"


SEALED = SealedColumn(
    "provider_credentials", "sealed", ("provider",), lambda row: _context(row["provider"])
)


def check(kind: ProviderKind, wanted: Mapping[str, str]) -> None:
    for name, value in wanted.items():
        _check(kind, name, value)
    check_aliases(kind, wanted)


def check_encrypted(wanted: Mapping[str, str]) -> None:
    """Rejects a URL without TLS, because keys and transfers would be sent unencrypted."""
    if wanted.get("base_url", "").partition(":")[0].lower() == "http":
        raise BadCredentials("In production mode base_url must start with https://.")


def check_aliases(kind: ProviderKind, given: Mapping[str, str]) -> None:
    """Rejects a setting and its alias if their values differ, because one would be ignored."""
    for name, alias in kind.aliases.items():
        values = {given[key] for key in (name, alias) if given.get(key)}
        if len(values) > 1:
            raise BadCredentials(
                f"{alias} is another name for {name}: set both to the same value, or unset one."
            )


def _check(kind: ProviderKind, name: str, value: str) -> None:
    field = kind.field(name)
    if field is None:
        names = ", ".join(field.name for field in kind.fields)
        raise BadCredentials(f"{kind.name} has no setting {name!r}; it has {names}.")
    if len(value) > VALUE_LENGTH_MAX or not (value.isascii() and value.isprintable()):
        raise BadCredentials(
            f"{name} can have at most {VALUE_LENGTH_MAX} printable ASCII characters."
        )
    if field.is_switch and value not in ("", "true", "false"):
        raise BadCredentials(f"{name} must be `true` or `false`.")
    # The path of each call is appended to the URL, so the URL must end with its own path.
    if name == "base_url" and value and (not is_web_address(value) or set("?#@") & set(value)):
        raise BadCredentials("base_url must be a URL such as https://api.example.com.")
