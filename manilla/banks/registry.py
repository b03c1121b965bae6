"""The registry of banks: finds a bank by any code or name, and the bank's code at each provider.

The registry is cached in memory, and at most a second behind the database.
"""

import asyncio
from collections import defaultdict

from manilla.banks import learning, names
from manilla.banks.learning import RailBank
from manilla.banks.nigeria import BY_ANY_CODE, BY_CODE, NigerianBank
from manilla.kit import changes
from manilla.kit.database.connections import Database
from manilla.kit.errors import Refusal

FOUND_MAX = 20


class AmbiguousBankCode(Refusal):
    status, code = 422, "AMBIGUOUS_BANK"
    message = "This bank code means different banks at different providers."


class BankRegistry:
    def __init__(self, db: Database, watch: changes.ChangeWatch) -> None:
        self._db = db
        # An "own code" is the code that a provider account uses for a bank.
        # Maps an account and an own code to a bank.
        self._by_provider: dict[tuple[str, str], NigerianBank] = {}
        self._codes: dict[tuple[str, str], str] = {}  # maps (account, registry code) to an own code
        # All pairs of an account and an own code, including the own codes of unknown banks.
        self._listed: set[tuple[str, str]] = set()
        # Maps an account and an own code to the bank name that the account uses.
        self._names: dict[tuple[str, str], str] = {}
        # Maps each registry code to the accounts that list the bank.
        self._providers: dict[str, list[str]] = {}
        # Maps each own code, of any account, to registry codes. None represents an unknown bank.
        self._meanings: dict[str, set[str | None]] = {}
        self._loading = asyncio.Lock()
        watch.follow(changes.BANKS, self._refresh)

    def find(self, code: str) -> NigerianBank | None:
        """Returns the bank with this central bank code, NIP code or provider's own code."""
        text = code.strip()
        known = BY_ANY_CODE.get(text)
        if known is not None:
            return known
        meanings = self._meanings.get(text, {None})
        if len(meanings) > 1:
            raise AmbiguousBankCode(
                f"{text} means different banks at different providers. "
                "Use the central bank's code, the NIP code or the bank's name."
            )
        return BY_CODE.get(next(iter(meanings)) or "")

    def understand(self, text: str) -> NigerianBank | None:
        """Returns the bank with this code or exactly this name."""
        return self.find(text) or names.find_bank(text.strip())

    def search(self, text: str) -> list[NigerianBank]:
        """Returns banks whose name, alias or code contains the text, for selection lists."""
        return names.search(text, FOUND_MAX)

    def bank_at(self, provider: str, code: str) -> NigerianBank | None:
        """Returns the bank that a provider's own code identifies."""
        return self._by_provider.get((provider, code))

    def name_at(self, provider: str, code: str) -> str | None:
        """Returns our name for the bank with this provider code, or else the provider's name."""
        bank = self.bank_at(provider, code)
        return self._names.get((provider, code)) if bank is None else bank.name

    def has_code(self, provider: str, code: str) -> bool:
        """Whether the provider's current bank list contains this code, even for an unknown bank."""
        return (provider, code) in self._listed

    def code_at(self, provider: str, bank: NigerianBank) -> str | None:
        """Returns the bank's code in the provider's current bank list, or None."""
        return self._codes.get((provider, bank.code))

    def providers_with(self, bank: NigerianBank) -> list[str]:
        """Returns the provider accounts whose current bank list contains the bank."""
        return self._providers.get(bank.code, [])

    async def _refresh(self, _known_version: int) -> None:
        await self.load()

    async def load(self) -> None:
        """Reloads bank codes. Only one load runs at a time, so old data never replaces new data."""
        async with self._loading:
            rows = await learning.load(self._db)
            certain = [row for row in rows if row.is_certain and row.bank is not None]
            listed = [row for row in certain if row.is_listed]
            self._by_provider = {
                (row.provider, row.code): BY_CODE[row.bank or ""] for row in certain
            }
            self._codes = {(row.provider, row.bank or ""): row.code for row in listed}
            self._listed = {(row.provider, row.code) for row in rows if row.is_listed}
            self._names = {(row.provider, row.code): row.name for row in rows}
            self._providers = _grouped(listed)
            self._meanings = _meanings(rows)


def _grouped(listed: list[RailBank]) -> dict[str, list[str]]:
    providers: dict[str, list[str]] = defaultdict(list)
    for row in listed:
        providers[row.bank or ""].append(row.provider)
    return dict(providers)


def _meanings(rows: list[RailBank]) -> dict[str, set[str | None]]:
    """Returns the banks that each code identifies at any provider.

    If a provider lists a code for a bank that we do not know, the result includes None, because the
    code may identify another bank there.
    """
    meanings: dict[str, set[str | None]] = defaultdict(set)
    for row in rows:
        if row.is_certain or row.is_listed:
            meanings[row.code].add(row.bank if row.is_certain else None)
    return dict(meanings)
