"""The banks that a provider can pay to, cached for an hour, and the banks' codes."""

import asyncio
import difflib
import time
from collections.abc import Sequence
from typing import Protocol

import msgspec
import structlog

from manilla.banks import learning, names
from manilla.banks.nigeria import BANKS, BY_CODE, SANDBOX_BANKS, NigerianBank, with_code
from manilla.banks.registry import AmbiguousBankCode, BankRegistry
from manilla.beneficiaries import methods, sandbox
from manilla.beneficiaries.accounts import SavedAccount
from manilla.kit import deadline
from manilla.kit.database.connections import Database
from manilla.kit.errors import Unavailable
from manilla.merchants.directory import Caller
from manilla.methods.catalogue import Catalogue
from manilla.methods.method import AUTO, Method, MethodKind
from manilla.providers.kind import Credentials
from manilla.providers.port import Bank, Direction, Done
from manilla.providers.rails import Rails
from manilla.transfers.refusals import PayoutFailed, ProviderUnavailable

log = structlog.get_logger(__name__)

KEEP_SECONDS = 3600
RETRY_SECONDS = 5
SUGGESTIONS_MAX = 2
NAME_LENGTH_MIN = 3
DEFAULT_METHOD = "providerb_ngn_transfer"


class ListedBank(msgspec.Struct, frozen=True):
    bank_code: str
    bank_name: str


class PaidAccount(Protocol):
    """The beneficiary of a payout."""

    @property
    def bank(self) -> str: ...

    @property
    def bank_list(self) -> str | None: ...

    @property
    def is_sandbox(self) -> bool: ...


class BankList(msgspec.Struct, frozen=True):
    provider: str
    currency_code: str
    banks: list[ListedBank]


def suggestion(text: str, banks: Sequence[Bank]) -> str:
    """Suggests a bank for a code without its leading zeros, or for an inexact name.

    Spreadsheets drop leading zeros.
    """
    short = text.lstrip("0")
    meant = [bank for bank in banks if short and bank.code.lstrip("0") == short][:1]
    meant = meant or _similar(text, banks)
    shown = " or ".join(f"{bank.code}, {bank.name}" for bank in meant)
    return f" Did you mean {shown}?" if meant else ""


def _similar(text: str, banks: Sequence[Bank]) -> list[Bank]:
    wanted = names.key(text)
    if len(wanted) < NAME_LENGTH_MIN:
        return []
    by_key = {names.key(bank.name): bank for bank in banks}
    keys = [key for key in by_key if wanted in key]
    keys = keys or difflib.get_close_matches(wanted, by_key, SUGGESTIONS_MAX)
    return [by_key[key] for key in keys[:SUGGESTIONS_MAX]]


class Banks:
    def __init__(
        self, db: Database, rails: Rails, catalogue: Catalogue, registry: BankRegistry
    ) -> None:
        self._db = db
        self._rails = rails
        self._catalogue = catalogue
        self._registry = registry
        self._kept: dict[str, tuple[Credentials, float, list[Bank]]] = {}
        self._requests: dict[str, tuple[Credentials, asyncio.Task[list[Bank]]]] = {}
        self._learning: dict[str, asyncio.Task[None]] = {}

    async def listed(self, caller: Caller, method_code: str | None) -> BankList:
        method = self._method(method_code or DEFAULT_METHOD)
        if method.provider is None:
            raise PayoutFailed(
                "This method has no bank list: an administrator processes its payouts."
            )
        methods.check_usable(self._catalogue, caller, method)
        banks = await self.of_rail(method.provider, is_sandbox=caller.is_sandbox)
        if banks is None:
            raise ProviderUnavailable("The provider is not responding right now.")
        return BankList(
            provider=method.provider,
            currency_code=method.currency,
            banks=[ListedBank(bank.code, bank.name) for bank in banks],
        )

    async def of_rail(self, provider: str, *, is_sandbox: bool) -> list[Bank] | None:
        """Returns the provider's banks, or None if it does not respond and no list is cached.

        The automatic method has the banks of all providers, with the codes of our registry.
        """
        if provider == AUTO:
            return await self._of_all_rails(is_sandbox=is_sandbox) or None
        if is_sandbox:
            return sandbox.banks(self._rails.credentials(provider).kind)
        current = self._rails.credentials(provider)
        account, kept_until, banks = self._kept.get(provider, (current, 0.0, []))
        if account != current:
            kept_until, banks = 0.0, []  # the bank codes may differ after a change of credentials
        if time.monotonic() >= kept_until:
            banks = await self._request(provider, current, banks)
        return banks or None

    async def _request(self, provider: str, current: Credentials, known: list[Bank]) -> list[Bank]:
        """Requests the provider's list. Concurrent callers share one request."""
        account, request = self._requests.get(provider, (None, None))
        if request is None or request.done() or account != current:
            request = deadline.start_detached(self._requested(provider, current, known))
            self._requests[provider] = current, request
        return await asyncio.shield(request)

    async def _requested(
        self, provider: str, current: Credentials, known: list[Bank]
    ) -> list[Bank]:
        adapter = self._rails.adapter(provider)
        answer = await adapter.banks() if adapter else None
        is_new = isinstance(answer, Done)
        banks = answer.value if isinstance(answer, Done) else known
        keep_seconds = KEEP_SECONDS if is_new else RETRY_SECONDS
        self._kept[provider] = (current, time.monotonic() + keep_seconds, banks)
        if is_new and self._rails.credentials(provider) == current:
            # Whoever needs only the list, such as a payout, does not wait until it is stored.
            self._learning[provider] = deadline.start_detached(self._learn(provider, banks))
        return banks

    async def learned(self) -> None:
        """Waits until the registry has the bank codes of the lists that were requested so far."""
        if self._learning:
            await asyncio.wait(self._learning.values())

    async def _of_all_rails(self, *, is_sandbox: bool) -> list[Bank]:
        if not is_sandbox:
            await self.refresh()
        known = SANDBOX_BANKS if is_sandbox else filter(self._registry.providers_with, BANKS)
        return [Bank(bank.code, bank.name) for bank in known]

    async def refresh(self) -> None:
        """Requests the bank list of each account that sends payouts, unless the list is cached."""
        for provider, account in self._rails.accounts.items():
            if account.is_open(Direction.PAY_OUT):
                await self.of_rail(provider, is_sandbox=False)
        await self.learned()

    def bank_at(self, provider: str, code: str, *, is_sandbox: bool) -> NigerianBank | None:
        """Returns the bank that the provider's own code identifies."""
        if provider == AUTO:
            return BY_CODE.get(code)
        if is_sandbox and provider in self._rails.accounts:
            return sandbox.bank_at(self._rails.credentials(provider).kind, code)
        return self._registry.bank_at(provider, code)

    def code_at(self, provider: str, bank: NigerianBank, *, is_sandbox: bool) -> str | None:
        """Returns the provider's own code for the bank, or None if its list lacks the bank."""
        if provider == AUTO:
            return bank.code
        if is_sandbox:
            return sandbox.code_at(self._rails.credentials(provider).kind, bank)
        return self._registry.code_at(provider, bank)

    def is_listed(self, provider: str, code: str) -> bool:
        """Whether the newest bank list that any process has requested contains the code."""
        return self._registry.has_code(provider, code)

    def codes_everywhere(self, bank: NigerianBank, *, is_sandbox: bool) -> dict[str, str]:
        """Returns the bank's code at each provider that lists the bank."""
        codes = {
            provider: self.code_at(provider, bank, is_sandbox=is_sandbox)
            for provider in self._rails.accounts
        }
        return {provider: code for provider, code in codes.items() if code is not None}

    async def own_code(self, provider: str, text: str, *, is_sandbox: bool) -> str:
        """Returns the provider's own code for a bank name or bank code that a user has typed.

        A code that the provider itself uses is returned unchanged. Unknown or ambiguous text is
        also returned unchanged, and is later rejected as an unknown code.
        """
        listed = await self.of_rail(provider, is_sandbox=is_sandbox) or []
        await self.learned()
        is_own = any(bank.code == text for bank in listed)
        if is_own or (not is_sandbox and self.is_listed(provider, text)):
            return text
        try:
            bank = self._registry.understand(text)
        except AmbiguousBankCode:
            return text
        own = None if bank is None else self.code_at(provider, bank, is_sandbox=is_sandbox)
        return own or text

    def doubt(self, text: str) -> str | None:
        """Returns why a bank code is ambiguous across providers, or None if it is not."""
        try:
            self._registry.find(text)
        except AmbiguousBankCode as refusal:
            return refusal.text
        return None

    def name_at(self, provider: str | None, code: str, *, is_sandbox: bool) -> str | None:
        """Returns the name of the bank that a provider's code identifies.

        The name comes from our registry or, if the registry does not know the bank, from the
        provider. The manual method has no provider, and uses a name instead of a code.
        """
        if provider is None:
            return code
        bank = self.bank_at(provider, code, is_sandbox=is_sandbox)
        return self._registry.name_at(provider, code) if bank is None else bank.name

    def text_at(self, provider: str | None, code: str, *, is_sandbox: bool) -> str:
        """Returns the bank's name and code, such as `Guaranty Trust Bank (058)`."""
        return with_code(self.name_at(provider, code, is_sandbox=is_sandbox), code)

    def name_of(self, account: PaidAccount | SavedAccount) -> str:
        """Returns the name of the beneficiary's bank, or the bank's code if the name is unknown."""
        if isinstance(account, SavedAccount):
            name = self._name_of_saved(account)
        else:
            name = self.name_at(account.bank_list, account.bank, is_sandbox=account.is_sandbox)
        return name or account.bank

    def text_of(self, account: PaidAccount | SavedAccount) -> str:
        """Returns the beneficiary's bank and its code, such as `Guaranty Trust Bank (058)`."""
        return with_code(self.name_of(account), account.bank)

    def _name_of_saved(self, account: SavedAccount) -> str | None:
        """Returns the name of a saved account's bank. Both environments share saved accounts."""
        method = self._catalogue.by_code(MethodKind.WITHDRAW, account.method_code)
        provider = None if method is None else method.provider
        in_each = (self.name_at(provider, account.bank, is_sandbox=each) for each in (False, True))
        return next((name for name in in_each if name), None)

    async def _learn(self, provider: str, banks: Sequence[Bank]) -> None:
        try:
            listed = [(bank.code, bank.name) for bank in banks]
            if await learning.learn(self._db, provider, listed):
                await self._registry.load()
        except Unavailable as away:  # the list is usable even if it cannot be stored
            log.warning("bank_list_not_stored", provider=provider, **away.facts)

    def _method(self, code: str) -> Method:
        method = self._catalogue.by_code(MethodKind.WITHDRAW, code)
        if method is None or not method.active:
            raise PayoutFailed(f"There is no payout method {code!r}.")
        return method
