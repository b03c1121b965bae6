"""The declaration of a kind of provider: credentials, capabilities, and how to build its adapter.

A kind is an adapter for one provider's API. An account has a name, and credentials for one kind.
Everywhere else, `provider` means the account's name. Each kind has an account with the kind's name.
"""

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime
from importlib import resources
from typing import Any
from urllib.parse import urlsplit

import msgspec

from manilla.banks.nigeria import NigerianBank
from manilla.kit.http_client.client import HttpClient
from manilla.providers.checks.check import ProviderCheck, Samples
from manilla.providers.health import Rail
from manilla.providers.port import (
    NO_STATEMENTS,
    AccountDesk,
    Adapter,
    Answer,
    Channel,
    Direction,
    DisputeDesk,
    LineKind,
    Mandates,
    SavedCards,
    StatementPage,
)
from manilla.providers.replies import Envelope, read_flag
from manilla.providers.wire import ProviderApi, Recorder, Wire


class CredentialField(msgspec.Struct, frozen=True):
    name: str
    is_secret: bool = True
    is_required: bool = False
    is_switch: bool = False
    default: str = ""
    label: str = ""  # overrides the label that is derived from the name
    note: str = ""  # shown beside the field

    @property
    def title(self) -> str:
        return self.label or self.name.replace("_", " ").capitalize()


def switch(name: str, default: str, label: str, note: str) -> CredentialField:
    return CredentialField(
        name, is_secret=False, is_switch=True, default=default, label=label, note=note
    )


SANDBOX = switch(
    "sandbox",
    "false",
    "Mark as a test account",
    "Manilla never uses a test account for real money. Test keys mark an account automatically.",
)
SWITCHES = (
    SANDBOX,
    switch("pay_in_enabled", "true", "Pay-in", "Offer this account's methods to customers."),
    switch("pay_out_enabled", "true", "Pay-out", "Send payouts through this account."),
)


def base_url(live: str) -> CredentialField:
    return CredentialField("base_url", is_secret=False, default=live, label="API URL")


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    virtual_accounts: bool = True
    # The channels that the provider's hosted page accepts.
    channels: frozenset[Channel] = frozenset(Channel)
    virtual_account_needs_bvn: bool = False
    permanent_accounts: bool = False  # accounts of a merchant's customers, for any amount
    # Whether a transfer or refund that the provider does not know may be sent again.
    # Sending again is safe only if the provider rejects a reference that it has seen before.
    resend_transfer: bool = True
    resend_refund: bool = False
    refund_status: bool = False  # whether the API has a status query for refunds
    # The types of balance changes in provider statements, or empty if there are no statements.
    statements: frozenset[LineKind] = frozenset()


class ProviderKind(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    title: str
    fields: tuple[CredentialField, ...]
    build: Callable[["AdapterContext"], Adapter]
    capabilities: Capabilities = Capabilities()
    aliases: Mapping[str, str] = {}  # maps a setting to its alias
    sandbox_base_url: str = ""  # the URL of the provider's sandbox, if it has a separate host
    # Maps a credential's name to the prefix of test keys.
    # An account with a test key is a test account, regardless of its sandbox switch.
    test_key_prefixes: Mapping[str, str] = {}
    # Additional checks for `manilla provider check`, which replace common checks of the same name.
    checks: tuple[ProviderCheck, ...] = ()
    samples: Samples | None = None  # the provider's documented test accounts
    # A limit of the provider's refunds, which the refund form shows for a payment on its page.
    refund_note: str = ""
    # Returns a bank's code for the merchants' sandbox, which calls no provider.
    sandbox_bank_code: Callable[[NigerianBank], str] = lambda bank: bank.code

    @property
    def guide(self) -> str | None:
        """The setup instructions for an account as Markdown, or None if this kind has no guide."""
        file = resources.files("manilla.providers.kinds") / self.name / "guide.md"
        return file.read_text() if file.is_file() else None

    def is_own_host(self, url: str) -> bool:
        """Returns True if the URL's host belongs to the provider.

        Always true for a kind whose default URL is only an example, because its hosts are unknown.
        """
        field = self.field("base_url")
        assert field is not None
        own = {urlsplit(each).hostname for each in (field.default, self.sandbox_base_url) if each}
        is_known = not any(host and host.endswith(".example") for host in own)
        return not (url and is_known) or urlsplit(url).hostname in own

    def field(self, name: str) -> CredentialField | None:
        return next((field for field in self.fields if field.name == name), None)


class Credentials(msgspec.Struct, frozen=True):
    """An account's current settings. A setting that is not set has its default value."""

    provider: str  # the account's name
    kind: ProviderKind
    given: Mapping[str, str] = {}

    def value(self, name: str) -> str:
        field = self.kind.field(name)
        assert field is not None, name
        alias = self.kind.aliases.get(name, "")
        return self.given.get(name) or self.given.get(alias) or self._default(field)

    def _default(self, field: CredentialField) -> str:
        if field.name == "base_url" and self.kind.sandbox_base_url and self.is_sandbox:
            return self.kind.sandbox_base_url
        return field.default

    def is_on(self, name: str) -> bool:
        return self.value(name) == "true"

    @property
    def title(self) -> str:
        own = self.provider == self.kind.name
        return self.kind.title if own else f"{self.kind.title} ({self.provider})"

    @property
    def missing(self) -> list[str]:
        required = [field.name for field in self.kind.fields if field.is_required]
        return [name for name in required if not self.value(name)]

    @property
    def is_valid(self) -> bool:
        return not self.missing

    @property
    def is_sandbox(self) -> bool:
        return self.is_on("sandbox") or self._has_test_key

    @property
    def has_only_test_money(self) -> bool:
        """Returns True if calls with these credentials certainly move no real money.

        If the provider's test keys have a prefix, only the prefix counts, because the sandbox
        switch may be on although the key is a live key.
        """
        return self._has_test_key if self.kind.test_key_prefixes else self.is_on("sandbox")

    @property
    def has_own_host(self) -> bool:
        """Returns True if calls go to the provider's own host, with TLS."""
        url = self.value("base_url")
        return url.startswith("https://") and self.kind.is_own_host(url)

    @property
    def _has_test_key(self) -> bool:
        prefixes = self.kind.test_key_prefixes
        return any(self.value(name).startswith(text) for name, text in prefixes.items())

    def is_open(self, direction: Direction) -> bool:
        """Returns True if the credentials are complete and this direction is enabled."""
        name = f"{direction}_enabled"
        return self.is_valid and (self.kind.field(name) is None or self.is_on(name))

    @property
    def secrets(self) -> list[str]:
        secret = {field.name for field in self.kind.fields if field.is_secret}
        return [text for name, text in self.given.items() if name in secret]

    def shown(self) -> dict[str, Any]:
        """Returns the settings for display. A secret is shown as `set` or None."""
        return {field.name: self._shown(field) for field in self.kind.fields}

    def _shown(self, field: CredentialField) -> str | bool | None:
        value = self.given.get(field.name)
        if field.is_switch:
            return (value or field.default) == "true"
        if field.is_secret:
            return "set" if value else None
        return value or self._default(field) or None


class AdapterContext(msgspec.Struct, frozen=True):
    credentials: Credentials
    pay_in: Rail
    pay_out: Rail
    client: HttpClient
    calls: asyncio.Semaphore
    record: Recorder | None = None

    def api(self, envelope: Envelope) -> ProviderApi:
        current = self.credentials
        base_url = current.value("base_url").rstrip("/")
        return ProviderApi(
            self.client, base_url, envelope, self.calls, current.secrets, self.record
        )

    def wires(
        self, headers: Mapping[str, str], envelope: Envelope = read_flag
    ) -> tuple[Wire, Wire]:
        """Returns the HTTP clients for pay-ins and for pay-outs."""
        api = self.api(envelope)
        return Wire(self.pay_in, api, headers), Wire(self.pay_out, api, headers)


class BaseAdapter:
    """An adapter for a provider that accepts our references unchanged and has no statements."""

    disputes: DisputeDesk | None = None
    accounts: AccountDesk | None = None
    cards: SavedCards | None = None
    mandates: Mandates | None = None

    def __init__(
        self, context: AdapterContext, headers: Mapping[str, str], envelope: Envelope = read_flag
    ) -> None:
        self.provider = context.credentials.provider
        self._pay_in, self._pay_out = context.wires(headers, envelope)

    async def statement(
        self, since: datetime, until: datetime, currency: str, start: str | None = None
    ) -> Answer[StatementPage]:
        return NO_STATEMENTS

    def transfer_reference(self, trx_id: str) -> str:
        return trx_id
