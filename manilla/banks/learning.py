"""Stores the bank codes from providers' bank lists. Administrators can map codes to banks."""

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec
import structlog

from manilla.audit import audit
from manilla.banks import names
from manilla.banks.matching import Doubt, Match, MatchedBy, match
from manilla.banks.nigeria import BY_CODE
from manilla.kit import changes
from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.rows import columns
from manilla.kit.errors import Refusal

log = structlog.get_logger(__name__)

LISTED_MAX = 5_000  # maximum length of a bank list; real lists are shorter
CODE_LENGTH_MAX = 50


class UnknownBankCode(Refusal):
    status, code = 404, "NOT_FOUND"
    message = "The provider's bank list has no such code."


class BadMapping(Refusal):
    status, code = 400, "VALIDATION_FAILED"
    message = "The code cannot be mapped to this bank."


class RailBank(msgspec.Struct, frozen=True):
    """A provider account's own bank code, and the bank that it identifies."""

    provider: str
    code: str
    name: str  # the provider's name for the bank
    bank: str | None
    matched_by: MatchedBy | None
    doubt: Doubt | None
    is_listed: bool  # whether the provider's latest bank list has the code
    first_seen_at: datetime
    last_seen_at: datetime

    @property
    def match(self) -> Match:
        return Match(self.name, self.bank, self.matched_by, self.doubt, self.is_listed)

    @property
    def is_certain(self) -> bool:
        return self.bank in BY_CODE and self.doubt is None

    @property
    def needs_attention(self) -> bool:
        """Whether an administrator should map the code to a bank."""
        return self.is_listed and not self.is_certain and (self.bank, self.matched_by) != _NO_BANK


_NO_BANK = (None, MatchedBy.MANUAL)
_SELECT = f"SELECT {columns(RailBank)} FROM provider_bank"


async def load(db: Database | Connection, provider: str | None = None) -> list[RailBank]:
    return await db.rows(
        RailBank,
        f"{_SELECT} WHERE $1::text IS NULL OR provider = $1 ORDER BY provider, code",
        provider,
    )


async def learn(db: Database, provider: str, listed: Iterable[tuple[str, str]]) -> bool:
    """Stores a provider's bank list, and matches its codes and names with banks.

    Returns True if something has changed.
    """
    usable = [(code, name) for code, name in listed if _is_usable(code, name)]
    if not 0 < len(usable) <= LISTED_MAX:
        log.warning("bank_list_not_learned", provider=provider, banks=len(usable))
        return False
    known = _matches(await load(db, provider))
    is_changed = match(usable, known) != known
    if is_changed:
        async with db.transaction() as connection:
            # `announce` also takes a lock, so only one process stores bank codes at a time.
            await changes.announce(connection, changes.BANKS)
            known = _matches(await load(connection, provider))
            await _store(connection, provider, known, match(usable, known))
    await db.execute(
        """
        UPDATE provider_bank SET last_seen_at = now()
         WHERE provider = $1 AND is_listed AND last_seen_at < now() - interval '5 minutes'""",
        provider,
    )
    return is_changed


async def map_code(db: Database, provider: str, code: str, bank: str | None) -> RailBank:
    """Maps a provider's code to a bank in our registry, or to None if we do not have the bank."""
    if bank is not None and bank not in BY_CODE:
        raise BadMapping(f"There is no bank {bank!r}.")
    async with db.transaction() as connection:
        await changes.announce(connection, changes.BANKS)
        rows = await load(connection, provider)
        before = next((row for row in rows if row.code == code), None)
        if before is None:
            raise UnknownBankCode(f"The bank list of {provider} has no code {code!r}.")
        known = _matches(rows)
        _check_free(known, code, bank)
        known[code] = Match(before.name, bank, MatchedBy.MANUAL, None, before.is_listed)
        listed = [(row.code, row.name) for row in rows if row.is_listed]
        await _store(connection, provider, _matches(rows), match(listed, known))
        await audit.record(
            connection,
            "bank.map",
            f"provider:{provider}",
            bank_code=code,
            name=before.name,
            before=before.bank,
            after=bank,
        )
        return next(row for row in await load(connection, provider) if row.code == code)


def _check_free(known: Mapping[str, Match], code: str, bank: str | None) -> None:
    for other, entry in known.items():
        if bank is not None and entry.bank == bank and entry.is_manual and other != code:
            raise BadMapping(
                f"{BY_CODE[bank].name} is already mapped to the code {other}. Unmap it first."
            )


def _is_usable(code: str, name: str) -> bool:
    is_short = len(code) <= CODE_LENGTH_MAX and len(name) <= names.LENGTH_MAX
    return is_short and code.isprintable() and name.isprintable() and code.strip() == code != ""


def _matches(rows: Iterable[RailBank]) -> dict[str, Match]:
    return {row.code: row.match for row in rows}


async def _store(
    connection: Connection, provider: str, before: Mapping[str, Match], after: Mapping[str, Match]
) -> None:
    changed = {code: entry for code, entry in after.items() if before.get(code) != entry}
    entries = changed.values()
    await connection.execute(
        """
        INSERT INTO provider_bank (provider, code, name, bank, matched_by, doubt, is_listed)
        SELECT $1, * FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[],
                                 $7::boolean[])
            ON CONFLICT (provider, code)
            DO UPDATE SET name = excluded.name, bank = excluded.bank,
                          matched_by = excluded.matched_by, doubt = excluded.doubt,
                          is_listed = excluded.is_listed""",
        provider,
        list(changed),
        [entry.name for entry in entries],
        [entry.bank for entry in entries],
        [entry.matched_by for entry in entries],
        [entry.doubt for entry in entries],
        [entry.is_listed for entry in entries],
    )
    await connection.execute(
        """
        DELETE FROM provider_bank
         WHERE provider = $1 AND NOT is_listed AND matched_by IS DISTINCT FROM 'manual'
           AND last_seen_at < now() - interval '90 days'""",
        provider,
    )
