"""Recomputes every balance of a Manilla database, and verifies the hash chain over its postings.

This program runs without Manilla. It needs Python 3.11, asyncpg, and a database user that can read:

    python verify.py DATABASE_URL [--archive FOLDER] [--expect NUMBER:HASH] [--seal FILE]
                     [--save-seal FILE]

The exit code is 0 if everything is correct, and 1 otherwise. The program only reads, in one
snapshot of the database.
"""

import argparse
import asyncio
import gc
import gzip
import hashlib
import json
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import asyncpg

GENESIS = bytes(32)  # the previous hash of the chain's first link
MANIFEST, POSTINGS_FILE, ENTRIES_FILE = "manifest.json", "postings.gz", "entries.gz"
CARRIED = b"carried_forward"  # the transaction id of postings with the sums of archived postings
LOWEST_ID = -(2**63)
HIGHEST_ID = 2**63 - 1
POSTINGS_AT_ONCE = 10_000
FINDINGS_MAX = 1_000
LAGOS = timezone(timedelta(hours=1))  # Nigeria has no daylight saving time
# The worker links postings within seconds, unless it is stopped or a transaction hangs.
LINKED_WITHIN = timedelta(minutes=30)

# Another cell numbered the postings that arrived with a merchant. A link with the merchant's number
# covers them. Until the merchant's move has ended, no link covers them. The first line is evaluated
# once for each query. Most databases have no such postings, and then no row is compared with links.
NUMBERED_HERE = """
    (NOT (SELECT EXISTS (SELECT FROM public.posting_chain WHERE merchant_id IS NOT NULL)
              OR EXISTS (SELECT FROM public.merchant_fence WHERE state = 'arriving'))
     OR NOT EXISTS (SELECT FROM public.posting_chain a
                     WHERE a.merchant_id = {row}.merchant_id
                       AND {row}.{id} BETWEEN a.first_id AND a.last_id)
        AND NOT EXISTS (SELECT FROM public.merchant_fence f
                         WHERE f.merchant_id = {row}.merchant_id AND f.state = 'arriving'
                           AND {row}.{id} > f.after_id))"""
_POSTING = "SELECT id, merchant_id, environment, currency, kind, trx_id, reason, posted_at"
_ENTRY = """
    SELECT e.posting_id, e.line, e.merchant_id, e.environment, e.currency, e.account,
           e.amount_minor, e.balance_minor"""
# These queries select the postings with ids above $1 and up to $2, and their merchants' entries.
POSTINGS = f"""
    {_POSTING} FROM public.posting p WHERE p.id > $1 AND p.id <= $2
       AND {NUMBERED_HERE.format(row="p", id="id")}
     ORDER BY p.id, p.merchant_id"""
ENTRIES = f"""
    {_ENTRY}
      FROM (SELECT DISTINCT merchant_id FROM public.posting WHERE id > $1 AND id <= $2) AS p
      JOIN public.entry e ON e.merchant_id = p.merchant_id
           AND e.posting_id > $1 AND e.posting_id <= $2
     WHERE {NUMBERED_HERE.format(row="e", id="posting_id")}
     ORDER BY e.posting_id, e.merchant_id, e.line"""
# These queries select the postings that arrived with merchant $1: those with ids from $2 to $3.
ARRIVED_POSTINGS = f"""
    {_POSTING} FROM public.posting
     WHERE merchant_id = $1 AND id BETWEEN $2 AND $3 ORDER BY id, merchant_id"""
ARRIVED_ENTRIES = f"""
    {_ENTRY} FROM public.entry e
     WHERE e.merchant_id = $1 AND e.posting_id BETWEEN $2 AND $3
     ORDER BY e.posting_id, e.merchant_id, e.line"""
NULL = rb"\N"
# These settings determine the text of a time, and the way to find the entries of new postings.
SETTINGS = """
    SET LOCAL timezone = 'UTC'; SET LOCAL datestyle = 'ISO, MDY'; SET LOCAL jit = off;
    SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off;
    SET LOCAL enable_mergejoin = off; SET LOCAL max_parallel_workers_per_gather = 0;
    SET LOCAL work_mem = '64MB'"""

LINKS = """
    SELECT number, first_id, last_id, postings, entries, content, linked_at, previous_hash, hash,
           merchant_id
      FROM public.posting_chain ORDER BY number"""
# Entries of a merchant that is being moved to this cell belong to no link yet.
ENTRY_COUNT = """
    SELECT (SELECT count(*) FROM public.entry)
           - (SELECT count(*) FROM public.entry e
                JOIN public.merchant_fence f ON f.merchant_id = e.merchant_id
                 AND f.state = 'arriving' AND e.posting_id > f.after_id)"""
ARCHIVED = """
    SELECT month::text AS month, first_link, last_link, last_id, manifest_sha256
      FROM public.archive_month ORDER BY month"""
HEAD = "SELECT number, last_id, hash FROM public.posting_chain_head"
# Wallets of merchants that live in another cell: their later postings are in that cell.
AWAY = """
    SELECT merchant_id FROM public.merchant_fence
     WHERE state IN ('arriving', 'left', 'partial')"""
WALLETS = "SELECT merchant_id, environment, currency, balance_minor FROM public.wallet"
# A view or a row filter instead of a table could hide rows from this program.
REPLACED_TABLES = """
    SELECT relname::text AS name FROM pg_class
     WHERE relnamespace = 'public'::regnamespace
       AND (relkind IN ('v', 'm', 'f') OR relrowsecurity OR relhasrules)
     UNION
    SELECT name FROM unnest(ARRAY['posting', 'entry', 'wallet', 'posting_chain']) AS name
     WHERE to_regclass('public.' || name) IS NULL"""

Account = tuple[int, str, str, str]  # merchant id, environment, currency, ledger account
Lines = list[bytes]  # rows in the text format of COPY, with tabs between the fields


@dataclass(frozen=True)
class Link:
    """The chain's record of a range of postings. Its hash covers all other fields.

    With a merchant, the link covers the postings that were moved here with the merchant. Their ids
    are from another cell.
    """

    number: int
    first_id: int
    last_id: int
    postings: int
    entries: int
    content: bytes
    linked_at: datetime
    previous_hash: bytes
    hash: bytes = b""
    merchant_id: int | None = None

    @property
    def computed_hash(self) -> bytes:
        microseconds = (self.linked_at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
            microseconds=1
        )
        fields = [
            *(self.number, self.first_id, self.last_id, self.postings, self.entries),
            *(self.content.hex(), microseconds, self.previous_hash.hex()),
            *(() if self.merchant_id is None else (self.merchant_id,)),
        ]
        return hashlib.sha256(json.dumps(fields, separators=(",", ":")).encode()).digest()

    @property
    def day(self) -> str:
        return self.linked_at.astimezone(LAGOS).date().isoformat()

    @property
    def anchor(self) -> str:
        return anchor(self.number, self.hash)


def anchor(number: int, link_hash: bytes) -> str:
    """Returns the text with which a link can be recorded outside of the database."""
    return f"{number}:{link_hash.hex()}"


async def read(connection: Any, after_id: int, last_id: int) -> tuple[Lines, Lines]:
    """Returns the postings in a range of ids, and their entries, in the order of the ids."""
    return (
        await _copy(connection, POSTINGS, after_id, last_id),
        await _copy(connection, ENTRIES, after_id, last_id),
    )


async def read_arrived(
    connection: Any, merchant_id: int, first_id: int, last_id: int
) -> tuple[Lines, Lines]:
    """Returns the postings that arrived with a merchant, and their entries."""
    return (
        await _copy(connection, ARRIVED_POSTINGS, merchant_id, first_id, last_id),
        await _copy(connection, ARRIVED_ENTRIES, merchant_id, first_id, last_id),
    )


async def _copy(connection: Any, sql: str, *values: int) -> Lines:
    parts: list[bytes] = []

    async def add(data: bytes) -> None:
        parts.append(data)

    await connection.copy_from_query(sql, *values, output=add)
    return b"".join(parts).split(b"\n")[:-1]


def digest(postings: Lines, entries: Lines) -> bytes:
    """Returns the content of a link that covers these postings and entries."""
    return hashlib.sha256(b"\n".join([*postings, *entries])).digest()


@dataclass(frozen=True)
class ArchivedMonth:
    """A folder of the archive. The database has the SHA-256 of the folder's manifest."""

    folder: Path
    month: str  # such as 2019-03
    first_link: int
    last_link: int
    last_id: int
    manifest_sha256: bytes

    @classmethod
    def of(cls, archive: Path, row: Any) -> "ArchivedMonth":
        """Returns the folder of a row of the table `archive_month`."""
        month = row["month"][:7]
        links = row["first_link"], row["last_link"], row["last_id"]
        return cls(archive / month, month, *links, row["manifest_sha256"])

    def find_problems(self) -> Iterator[str]:
        """Reads all files of the month, and compares them with the manifest."""
        try:
            content = (self.folder / MANIFEST).read_bytes()
            if hashlib.sha256(content).digest() != self.manifest_sha256:
                yield f"{MANIFEST} is not the one that the database knows."
                return
            manifest = json.loads(content)
            for name, expected in manifest["files"].items():
                yield from self._find_file_problems(name, expected)
        except (OSError, ValueError, EOFError) as error:
            yield f"The month cannot be read: {error}."

    def _find_file_problems(self, name: str, expected: dict[str, Any]) -> Iterator[str]:
        file = self.folder / name
        with file.open("rb") as source:
            if hashlib.file_digest(source, "sha256").hexdigest() != expected["sha256"]:
                yield f"{name} was changed."
                return
        with gzip.open(file) as source:
            if sum(1 for _ in source) != expected["lines"]:
                yield f"{name} does not have {expected['lines']} lines."


class ArchivedLines:
    """Reads the postings and entries of archived months, in the order of their ids."""

    def __init__(self, months: Sequence[ArchivedMonth]) -> None:
        self._postings = _Reader([month.folder / POSTINGS_FILE for month in months])
        self._entries = _Reader([month.folder / ENTRIES_FILE for month in months])

    def read(self, last_id: int) -> tuple[Lines, Lines]:
        """Returns the lines after those that were read before, up to an id."""
        return self._postings.read(last_id), self._entries.read(last_id)


class _Reader:
    def __init__(self, files: list[Path]) -> None:
        self._lines = _lines(files)
        self._next = next(self._lines, None)

    def read(self, last_id: int) -> Lines:
        lines: Lines = []
        while self._next is not None and _id(self._next) <= last_id:
            lines.append(self._next)
            self._next = next(self._lines, None)
        return lines


def _lines(files: list[Path]) -> Iterator[bytes]:
    for file in files:
        with gzip.open(file) as source:
            for line in source:
                yield line.removesuffix(b"\n")


@dataclass(frozen=True)
class Discrepancy:
    check: str
    subject: str
    detail: str


@dataclass
class Seal:
    """What an earlier run verified: the last link, and each account's balance after that link."""

    anchor: str
    last_id: int
    balances: dict[Account, int]
    checked_at: datetime | None  # the time up to which `manilla prove` has checked transactions

    @classmethod
    def read(cls, text: str) -> "Seal":
        stored = json.loads(text)
        balances = {(row[0], row[1], row[2], row[3]): row[4] for row in stored["balances"]}
        checked = stored["checked_at"]
        checked_at = None if checked is None else datetime.fromisoformat(checked)
        return cls(stored["anchor"], stored["last_id"], balances, checked_at)

    @property
    def number(self) -> int:
        return int(self.anchor.partition(":")[0])


@dataclass
class Verification:
    """The result of a run. `balances` contains every account's recomputed balance."""

    links: list[Link] = field(default_factory=list)
    balances: dict[Account, int] = field(default_factory=dict)
    balances_at_date: dict[Account, int] | None = None
    sealed_balances: dict[Account, int] = field(default_factory=dict)
    postings: int = 0
    entries: int = 0
    unlinked_postings: int = 0
    archived_id: int = LOWEST_ID  # the last id of archived postings
    archived_entries: int = 0  # the number of verified entries that are not in the database
    findings: list[Discrepancy] = field(default_factory=list)  # up to FINDINGS_MAX of each check
    counts: Counter[str] = field(default_factory=Counter)  # the number of findings of each check

    def find(self, check: str, subject: Any, detail: str) -> None:
        self.counts[check] += 1
        if self.counts[check] <= FINDINGS_MAX:
            self.findings.append(Discrepancy(check, str(subject), detail))

    @property
    def is_sound(self) -> bool:
        return not self.findings

    @property
    def head(self) -> str:
        return self.links[-1].anchor if self.links else anchor(0, GENESIS)

    @property
    def sealed_days(self) -> list[dict[str, Any]]:
        """Each day's last link. The link's hash covers all postings up to the end of the link."""
        days: dict[str, dict[str, Any]] = {}
        for link in self.links:
            before = days.get(link.day, {"postings": 0, "entries": 0})
            days[link.day] = {
                "day": link.day,
                "anchor": link.anchor,
                "postings": before["postings"] + link.postings,
                "entries": before["entries"] + link.entries,
            }
        return list(days.values())

    def seal(self, checked_at: datetime | None = None) -> str:
        """Returns the file with which a later run skips the postings that this run verified."""
        rows = [[*account, minor] for account, minor in sorted(self.sealed_balances.items())]
        return json.dumps(
            {
                "anchor": self.head,
                "last_id": max(
                    (link.last_id for link in self.links if link.merchant_id is None), default=0
                ),
                "checked_at": None if checked_at is None else checked_at.isoformat(),
                "days": self.sealed_days,
                "balances": rows,
            },
            indent=0,
        )


async def verify(
    connection: Any,
    *,
    expected: Sequence[str] = (),
    seal: Seal | None = None,
    until: datetime | None = None,
    archive: Path | None = None,
) -> Verification:
    """Verifies the database in the connection's transaction, which must have one snapshot.

    `expected`: anchors from earlier runs, which the chain must still contain. `until`: the time for
    which balances are recomputed in addition to the current balances; a seal does not have them.
    `archive`: the folder with archived months, whose postings are no longer in the database.
    """
    assert seal is None or until is None, "a seal has only the balances after its last link"
    result = Verification()
    # Functions and operators that the database's owner has defined are not in the search path.
    await connection.execute(f"{SETTINGS}; SET LOCAL search_path = pg_catalog")
    for row in await connection.fetch(REPLACED_TABLES):
        result.find("tables", row["name"], "This is not a plain table, so rows may be hidden.")
    result.links = [Link(**row) for row in await connection.fetch(LINKS)]
    head = await connection.fetchrow(HEAD)
    _verify_links(result, head)
    _verify_anchors(result, [*expected, *([seal.anchor] if seal else [])])
    archived = await _archived_months(connection, result, archive)
    gc.disable()  # The rows have no reference cycles, and the search for cycles takes long.
    try:
        await _verify_postings(connection, result, seal, until, archived)
    finally:
        gc.enable()
    if seal is None:
        await _verify_count(connection, result)
    await _verify_wallets(connection, result)
    _verify_sums(result)
    return result


def _verify_links(result: Verification, head: Any) -> None:
    previous_hash, next_number, next_id = GENESIS, 1, 1
    for link in result.links:
        if link.number != next_number:
            result.find("chain", f"link {next_number}", "The link was removed.")
        elif link.previous_hash != previous_hash or (
            link.merchant_id is None and link.first_id != next_id
        ):
            result.find("chain", f"link {link.number}", "The link does not continue the chain.")
        if link.computed_hash != link.hash:
            result.find("chain", f"link {link.number}", "The link was changed.")
        previous_hash, next_number = link.hash, link.number + 1
        if link.merchant_id is None:
            next_id = link.last_id + 1
    if head is None:
        result.find("chain", "head", "The head of the chain is missing.")
    elif (head["number"], head["last_id"], head["hash"]) != (
        *(next_number - 1, next_id - 1),
        previous_hash,
    ):
        result.find(
            "chain", "head", f"The chain ended with {anchor(head['number'], head['hash'])}."
        )


def _verify_anchors(result: Verification, anchors: Sequence[str]) -> None:
    known = {anchor(0, GENESIS), *(link.anchor for link in result.links)}
    for expected in anchors:
        if expected not in known:
            result.find("anchor", expected, "The chain does not contain this link.")


async def _archived_months(
    connection: Any, result: Verification, archive: Path | None
) -> list[ArchivedMonth]:
    """Returns the archived months with correct files, or none if a month cannot be used."""
    rows = await connection.fetch(ARCHIVED)
    if rows:
        result.archived_id = rows[-1]["last_id"]
    if rows and archive is None:
        subject = f"postings up to {result.archived_id}"
        result.find("archive", subject, "The postings are archived, but no archive was given.")
        return []
    months = [ArchivedMonth.of(archive, row) for row in rows if archive is not None]
    next_link = 1
    for month in months:
        if month.first_link != next_link:
            result.find("archive", month.month, f"Link {next_link} is in no archived month.")
        next_link = month.last_link + 1
        for problem in month.find_problems():
            result.find("archive", month.month, problem)
    return [] if result.counts["archive"] else months


async def _verify_postings(
    connection: Any,
    result: Verification,
    seal: Seal | None,
    until: datetime | None,
    archived: list[ArchivedMonth],
) -> None:
    """Recomputes the links' contents and all balances, in the order of the postings' ids."""
    links = [link for link in result.links if seal is None or link.number > seal.number]
    sums = _Sums(result, until, {} if seal is None else seal.balances)
    start = LOWEST_ID if seal is None else seal.last_id
    # Postings that arrived with a merchant are never archived.
    removed = [
        link for link in links if link.last_id <= result.archived_id and link.merchant_id is None
    ]
    if archived:
        start = await _verify_archived(connection, result, sums, archived, removed, start)
    elif removed:
        # Without an archive, only the rows that remain in the database can be added up.
        for last_id, _ in linked_ranges(removed):
            sums.add(*await read(connection, start, last_id))
            start = last_id
    numbers = {link.number for link in removed}
    for last_id, group in linked_ranges([link for link in links if link.number not in numbers]):
        if group[0].merchant_id is not None:
            of_link = (group[0].merchant_id, group[0].first_id, last_id)
            postings, entries = await read_arrived(connection, *of_link)
        else:
            postings, entries = await read(connection, start, last_id)
            start = last_id
        verify_contents(result, group, postings, entries)
        sums.add(postings, entries)
    result.sealed_balances = sums.balances
    oldest = None
    for last_id in await _unlinked_ranges(connection, start):
        postings, entries = await read(connection, start, last_id)
        sums.add(postings, entries)
        result.unlinked_postings += len(postings)
        oldest = oldest or next(iter(postings), None)
        start = last_id
    if oldest and _posted_at(oldest) < _text(datetime.now(UTC) - LINKED_WITHIN):
        result.find(
            "chain",
            f"posting {_id(oldest)}",
            f"The posting is older than {LINKED_WITHIN}, and is in no link of the chain.",
        )
    result.balances = sums.balances
    result.balances_at_date = sums.balances_at_date


async def _verify_archived(
    connection: Any,
    result: Verification,
    sums: "_Sums",
    archived: list[ArchivedMonth],
    links: list[Link],
    start: int,
) -> int:
    """Verifies archived links with the archive's files, and what the database has of them.

    Returns the last id of the links.
    """
    lines, remaining = ArchivedLines(archived), _Remaining(result)
    is_full = start == LOWEST_ID
    lines.read(start)  # skips sealed postings
    for last_id, group in linked_ranges(links):
        postings, entries = lines.read(last_id)
        verify_contents(result, group, postings, entries)
        sums.add(postings, entries)
        if is_full:
            remaining.compare(postings, entries, *await read(connection, start, last_id))
        start = last_id
    remaining.end()
    return start


class _Remaining:
    """Compares rows of archived postings that are still in the database with the archive.

    A row is unchanged, or it belongs to a carried posting with the sum of removed postings. So the
    rows that remain have the same sum as the archived rows, for each account.
    """

    def __init__(self, result: Verification) -> None:
        self._result = result
        self._differences: Counter[bytes] = Counter()

    def compare(
        self, postings: Lines, entries: Lines, live_postings: Lines, live_entries: Lines
    ) -> None:
        known, kept = set(postings), set[bytes]()
        for line in live_postings:
            if line.split(b"\t")[5] != CARRIED:
                kept.add(_key(line))
                if line not in known:
                    self._find(line, "The posting differs from the archive.")
        of_kept = [line for line in entries if _key(line) in kept]
        for line in set(of_kept) ^ {line for line in live_entries if _key(line) in kept}:
            self._find(line, "An entry differs from the archive.")
        for sign, lines in ((1, entries), (-1, live_entries)):
            for line in lines:
                posted, amount, _ = line.rsplit(b"\t", 2)
                self._differences[posted.split(b"\t", 2)[2]] += sign * int(amount)
        self._result.archived_entries += len(entries) - len(live_entries)

    def end(self) -> None:
        for account, minor in self._differences.items():
            if minor:
                subject = account.decode().replace("\t", ":")
                detail = f"The archive has {minor} more than the rows that replace it."
                self._result.find("carried", subject, detail)

    def _find(self, line: bytes, detail: str) -> None:
        self._result.find("archive", f"posting {_id(line)}", detail)


def _key(line: bytes) -> bytes:
    """Returns the id of the posting. Ids are unique among all merchants."""
    return line.partition(b"\t")[0]


def _id(line: bytes) -> int:
    return int(line.partition(b"\t")[0])


def _posted_at(posting: bytes) -> bytes:
    return posting.rpartition(b"\t")[2]


def _text(moment: datetime) -> bytes:
    """Returns a time as the database returns it. The texts have the order of the times."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}+00".encode()


def linked_ranges(links: list[Link]) -> list[tuple[int, list[Link]]]:
    """Returns ranges of about POSTINGS_AT_ONCE postings: the last id, and the range's links.

    A link with the postings that arrived with a merchant is a range of its own.
    """
    groups: list[list[Link]] = []
    size = 0
    for link in links:
        is_apart = link.merchant_id is not None or (
            bool(groups) and groups[-1][-1].merchant_id is not None
        )
        if not groups or is_apart or size + link.postings > POSTINGS_AT_ONCE:
            groups.append([])
            size = 0
        groups[-1].append(link)
        size += link.postings
    return [(group[-1].last_id, group) for group in groups]


async def _unlinked_ranges(connection: Any, start: int) -> list[int]:
    """Returns the last id of each range after the last link."""
    first, last = await connection.fetchrow(
        f"SELECT min(p.id), max(p.id) FROM public.posting p WHERE p.id > $1"
        f" AND {NUMBERED_HERE.format(row='p', id='id')}",
        start,
    )
    return [] if first is None else [*range(first + POSTINGS_AT_ONCE, last, POSTINGS_AT_ONCE), last]


def verify_contents(
    result: Verification, links: list[Link], postings: Lines, entries: Lines
) -> None:
    """Compares each link with its rows. The first link also covers all rows before it."""
    first_posting = first_entry = 0
    for link in links:
        after_postings = bisect_right(postings, link.last_id, key=_id)
        after_entries = bisect_right(entries, link.last_id, key=_id)
        of_link = postings[first_posting:after_postings]
        entries_of_link = entries[first_entry:after_entries]
        counts = len(of_link), len(entries_of_link)
        subject = f"postings {link.first_id} to {link.last_id}"
        if counts != (link.postings, link.entries):
            result.find(
                "content",
                subject,
                f"Link {link.number} covers {link.postings} postings and {link.entries} entries. "
                f"The database has {counts[0]} and {counts[1]}.",
            )
        elif digest(of_link, entries_of_link) != link.content:
            result.find(
                "content",
                subject,
                f"The digest of link {link.number} does not match, so a posting or an entry was "
                "changed.",
            )
        first_posting, first_entry = after_postings, after_entries


@dataclass(slots=True)
class _Sum:
    """The balance of one account."""

    minor: int
    place: tuple[bytes, bytes]  # environment and currency
    late_minor: int = 0  # the sum of entries after the date for which balances are recomputed


class _Sums:
    """Adds up the entries of each account, and checks entries, postings and wallets' histories."""

    def __init__(
        self, result: Verification, until: datetime | None, balances: dict[Account, int]
    ) -> None:
        self._result = result
        self._until = None if until is None else _text(until)
        self._sums: dict[bytes, _Sum] = {}
        for account, minor in balances.items():
            self._open("\t".join(map(str, account)).encode()).minor = minor

    @property
    def balances(self) -> dict[Account, int]:
        return {_account(key): each.minor for key, each in self._sums.items()}

    @property
    def balances_at_date(self) -> dict[Account, int] | None:
        if self._until is None:
            return None
        return {_account(key): each.minor - each.late_minor for key, each in self._sums.items()}

    def add(self, postings: Lines, entries: Lines) -> None:
        """Adds the postings of a range of ids, in the order of their ids."""
        result, sums = self._result, self._sums
        result.postings += len(postings)
        result.entries += len(entries)
        places: dict[bytes, tuple[bytes, bytes]] = {}  # of postings whose entries follow
        for line in postings:
            number, _, environment, currency, _ = line.split(b"\t", 4)
            places[number] = environment, currency
        late = self._late(postings)
        current, place, total, count = b"", None, 0, 2
        for line in entries:
            posted, amount, history = line.rsplit(b"\t", 2)
            number, _, key = posted.split(b"\t", 2)
            if number != current:
                if total or count < 2:
                    self._find_sum(current, count, total)
                current, place, total, count = number, places.pop(number, None), 0, 0
            minor = int(amount)
            total += minor
            count += 1
            account = sums.get(key) or self._open(key)
            account.minor = after = account.minor + minor
            if late and number in late:
                account.late_minor += minor
            if history != NULL and (int(history) != after or after < 0):
                detail = f"The wallet had {after}, the entry {history.decode()}."
                result.find("history", f"posting {number.decode()}", detail)
            if account.place != place:
                self._find_place(number, account, place)
        if total or count < 2:
            self._find_sum(current, count, total)
        for number in places:
            self._find_sum(number, 0, 0)

    def _open(self, key: bytes) -> _Sum:
        _, environment, currency, _ = key.split(b"\t")
        return self._sums.setdefault(key, _Sum(0, (environment, currency)))

    def _late(self, postings: Lines) -> frozenset[bytes]:
        """Returns the ids of the postings after the date for which balances are recomputed."""
        if self._until is None:
            return frozenset()
        late = (line for line in postings if _posted_at(line) >= (self._until or b""))
        return frozenset(line.partition(b"\t")[0] for line in late)

    def _find_sum(self, number: bytes, count: int, total: int) -> None:
        detail = f"{count} entries have the sum {total}."
        self._result.find("sum", f"posting {number.decode()}", detail)

    def _find_place(self, number: bytes, account: _Sum, place: tuple[bytes, bytes] | None) -> None:
        subject = f"posting {number.decode()}"
        if place is None:
            self._result.find("orphans", subject, "An entry has no posting.")
        else:
            detail = f"It has an entry in {b' '.join(account.place).decode()}."
            self._result.find("environment", subject, detail)


def _account(key: bytes) -> Account:
    merchant_id, environment, currency, account = key.decode().split("\t")
    return int(merchant_id), environment, currency, account


async def _verify_count(connection: Any, result: Verification) -> None:
    """Checks that the entries of the postings are all entries."""
    entries = await connection.fetchval(ENTRY_COUNT)
    expected = result.entries - result.archived_entries
    if entries != expected:
        detail = f"The postings have {expected} of {entries} entries."
        result.find("orphans", "entries", detail)


async def _verify_wallets(connection: Any, result: Verification) -> None:
    """Compares each wallet's balance with the sum of its entries.

    The wallets of merchants that live in another cell are compared there.
    """
    away = {row["merchant_id"] for row in await connection.fetch(AWAY)}
    stored = {
        (row["merchant_id"], row["environment"], row["currency"], "wallet"): row["balance_minor"]
        for row in await connection.fetch(WALLETS)
    }
    computed = {key: minor for key, minor in result.balances.items() if key[3] == "wallet"}
    for key in sorted(stored.keys() | computed.keys()):
        if stored.get(key) != computed.get(key, 0) and key[0] not in away:
            result.find(
                "wallet",
                ":".join(map(str, key[:3])),
                f"The wallet has {stored.get(key)}, its entries {computed.get(key, 0)}.",
            )
        result.balances.setdefault(key, 0)


def _verify_sums(result: Verification) -> None:
    """Checks that all accounts of an environment and currency sum to zero."""
    totals: dict[tuple[str, str], int] = {}
    for (_, environment, currency, _), minor in result.balances.items():
        totals[environment, currency] = totals.get((environment, currency), 0) + minor
    for (environment, currency), minor in totals.items():
        if minor:
            result.find("sum", f"{environment} {currency}", f"All accounts have the sum {minor}.")


async def run(
    url: str, expected: Sequence[str], seal: Seal | None, archive: Path | None = None
) -> Verification:
    connection = await asyncpg.connect(url, command_timeout=3600)
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            return await verify(connection, expected=expected, seal=seal, archive=archive)
    finally:
        await connection.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("database_url")
    parser.add_argument("--archive", type=Path, help="the folder with archived months")
    parser.add_argument("--expect", action="append", default=[], metavar="NUMBER:HASH")
    parser.add_argument("--seal", type=Path, help="seal.json of an earlier pack")
    parser.add_argument("--save-seal", type=Path, help="the file for the next run's --seal")
    options = parser.parse_args()
    seal = Seal.read(options.seal.read_text()) if options.seal else None
    result = asyncio.run(run(options.database_url, options.expect, seal, options.archive))
    print(f"{result.postings} postings and {result.entries} entries were verified.")
    print(f"{result.unlinked_postings} of the postings are newer than the chain.")
    print(f"The head of the chain is {result.head}")
    for finding in result.findings:
        print(f"WRONG {finding.check}: {finding.subject}: {finding.detail}")
    if options.save_seal and result.is_sound:
        options.save_seal.write_text(result.seal())
    print(
        "Everything is correct." if result.is_sound else "The database or the archive was changed."
    )
    return 0 if result.is_sound else 1


if __name__ == "__main__":
    sys.exit(main())
