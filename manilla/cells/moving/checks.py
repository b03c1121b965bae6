"""Checks before a move that the second cell can serve the merchant as the first cell does."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from manilla.cells import directory, registry
from manilla.cells.moving import fence, team
from manilla.cells.moving.fence import CannotMove
from manilla.cells.moving.tables import COPIED, REPLICATED, key_of
from manilla.kit.crypto import HEAD_BYTES, Keyring, SealError
from manilla.kit.database.connections import Connection, Database
from manilla.merchants import queries as merchants
from manilla.platform import master_key
from manilla.providers import credentials
from manilla.transaction_types import tables_with_provider

_METHOD = (
    *("id", "kind", "code", "provider", "flow", "currency", "active", "min_minor", "max_minor"),
    *("fee_fixed_minor", "fee_percent", "fee_minimum_minor", "fee_maximum_minor"),
)


async def check(
    source: Database,
    target: Database,
    keyring: Keyring,
    merchant_id: int,
    to: str,
    *,
    invites: bool,
    is_copied: bool = False,
) -> None:
    """Raises an error that lists everything that is missing for the move.

    `invites`: whether members whose email address has another account there may be invited.
    `is_copied`: the check is repeated after the copy, when the merchant has fences in both cells.
    """
    problems = [
        each async for each in _problems(source, target, keyring, merchant_id, to, is_copied)
    ]
    if not problems and not invites:
        taken = await team.taken_emails(source, target, keyring, merchant_id)
        problems += [_taken(to, taken)] if taken else []
    if problems:
        raise CannotMove(f"Merchant {merchant_id} cannot be moved to {to}. " + " ".join(problems))


def _taken(to: str, emails: Sequence[str]) -> str:
    return (
        f"{to} has other accounts with the email addresses of these members: {', '.join(emails)}."
        " Somebody else may have signed up with the addresses, so the accounts do not get access."
        " With --invite, the merchant moves, and these members are invited."
    )


async def _problems(
    source: Database,
    target: Database,
    keyring: Keyring,
    merchant_id: int,
    to: str,
    is_copied: bool,
) -> AsyncIterator[str]:
    async for problem in _cell_problems(source, target, merchant_id, to, is_copied):
        yield problem
        return  # the other checks could compare the wrong databases
    async for problem in _database_problems(source, target):
        yield problem
    async for problem in _merchant_problems(source, merchant_id, is_copied):
        yield problem
    try:
        sealed = await target.value("SELECT sealed FROM master_key_proof")
        is_same = sealed is None or keyring.is_current(sealed)
        if sealed is not None:
            keyring.open(sealed, master_key.CONTEXT)
    except SealError:
        is_same = False
    if not is_same:
        yield (
            "The cells have different master keys. Secrets and checkout links of the merchant need"
            " the same MANILLA_MASTER_KEY in both cells."
        )
        return
    async for problem in _sealed_problems(source, keyring, merchant_id):
        yield problem
    async for problem in _provider_problems(source, target, keyring, merchant_id):
        yield problem
    async for problem in _method_problems(source, target):
        yield problem


async def _cell_problems(
    source: Database, target: Database, merchant_id: int, to: str, is_copied: bool
) -> AsyncIterator[str]:
    async for problem in wrong_databases(source, target, to):
        yield problem
    this = await registry.required_this(source)
    home = (await directory.load(source)).home_of(merchant_id)
    if await merchants.merchant(source, merchant_id) is None:
        other = f" If it exists, it is in {home.name}." if home and home != this else ""
        yield f"There is no such merchant in this cell.{other}"
    elif home != this:
        yield f"It lives in {home.name if home else 'no cell'}: run the command there."
    else:
        states = ("arriving",) if is_copied else fence.COPIES
        found = await find_arrival_problem(target, merchant_id, this.name, states)
        if found is not None:
            yield found
        elif not is_copied and not await _has_same_postings(source, target, merchant_id):
            yield (
                "The copy in the second cell has other postings than this cell, because the second"
                " cell was recovered and has posted since. The merchant cannot return there."
            )


async def _has_same_postings(source: Database, target: Database, merchant_id: int) -> bool:
    """Returns whether the first cell has all postings that the second cell keeps."""
    last_id = await target.value(
        "SELECT max(posting_id) FROM entry WHERE merchant_id = $1", merchant_id
    )
    digests = [
        await db.value(
            """
            SELECT (count(*), sum(hashtextextended(concat_ws(' ', posting_id, line, environment,
                    currency, account, amount_minor, balance_minor), 0)))::text
              FROM entry WHERE merchant_id = $1 AND posting_id <= $2""",
            *(merchant_id, last_id),
        )
        for db in (source, target)
    ]
    return last_id is None or digests[0] == digests[1]


async def wrong_databases(source: Database, target: Database, to: str) -> AsyncIterator[str]:
    """Returns why the databases are not those of this cell and of the cell `to`."""
    this, other = await registry.required_this(source), await registry.get(source, to)
    found = await registry.this(target)
    if other.is_this:
        yield f"{to} is this cell."
    elif found is None or found.name != to:
        name = "no cell" if found is None else f"the cell {found.name}"
        yield f"The target's database belongs to {name}."
    elif this.name not in {cell.name for cell in await registry.list_cells(target)}:
        yield f"{to} does not know {this.name}: run `manilla cell add {this.name}` there."
    async for problem in _version_problems(source, target):
        yield problem


async def _version_problems(source: Database, target: Database) -> AsyncIterator[str]:
    version = "SELECT version_num FROM alembic_version"
    if await source.value(version) != await target.value(version):
        yield "The cells have different versions: run `manilla migrate` in both."
    owner = "SELECT tableowner = current_user FROM pg_tables WHERE tablename = 'posting'"
    for db, name in ((source, "MANILLA_MIGRATION_URL"), (target, "MANILLA_TARGET_DATABASE_URL")):
        if not await db.value(owner):
            yield f"{name} must connect as the owner of the tables."


async def find_arrival_problem(
    target: Database | Connection,
    merchant_id: int,
    from_cell: str,
    states: tuple[str, ...] = fence.COPIES,
) -> str | None:
    """Returns why the second cell's rows of the merchant must not be replaced, or None.

    The first cell's database can be wrong about this, if it was recovered to an earlier moment.
    """
    home = (await directory.load(target)).home_of(merchant_id)
    if home is not None and home.is_this:
        return (
            f"{home.name} says that the merchant lives there. A move would delete what the merchant"
            " has done there. If this cell's database was recovered to an earlier moment, run"
            " `manilla cell depart`."
        )
    if home is None or home.name != from_cell:
        return (
            f"The second cell says that the merchant lives in {home.name if home else 'no cell'}:"
            f" run `manilla cell locate {merchant_id} {from_cell}` there, if that is wrong."
        )
    state = await fence.state(target, merchant_id)
    if state in states:
        return None
    if state is not None:
        return f"Its fence in the second cell is `{state}`."
    if await merchants.merchant(target, merchant_id) is not None or await target.has_row(
        "SELECT true FROM entry WHERE merchant_id = $1 LIMIT 1", merchant_id
    ):
        return "The second cell has rows of the merchant that no move has copied."
    return None


async def _database_problems(source: Database, target: Database) -> AsyncIterator[str]:
    if await source.value("SHOW wal_level") != "logical":
        yield "The first cell's PostgreSQL needs `wal_level = logical`, and a restart."
    if "*" in await source.value("SHOW synchronous_standby_names"):
        yield (
            "The first cell's `synchronous_standby_names` must name its standbys. With `*`, the"
            " second cell could confirm the first cell's commits instead of a standby."
        )
    may = "rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user"
    if not await source.value(f"SELECT {may}"):
        yield (
            "The owner of the first cell's database needs a right: `ALTER ROLE"
            f" {await source.value('SELECT current_user')} REPLICATION`."
        )
    if not await target.value(
        "SELECT pg_has_role(current_user, 'pg_create_subscription', 'USAGE')"
    ):
        yield (
            "The owner of the second cell's database needs a right: `GRANT pg_create_subscription"
            f" TO {await target.value('SELECT current_user')}`."
        )


async def _sealed_problems(
    source: Database, keyring: Keyring, merchant_id: int
) -> AsyncIterator[str]:
    """Finds encrypted values under a master key that the second cell may not have."""
    places = await source.records(
        "SELECT table_name AS table, column_name AS column FROM information_schema.columns"
        " WHERE table_name = ANY ($1::text[]) AND data_type = 'bytea'"
        " AND column_name LIKE '%sealed' ORDER BY table_name",
        [*COPIED, *REPLICATED],
    )
    queries = {
        place["table"]: f"SELECT substring({place['column']} FROM 1 FOR {HEAD_BYTES}) AS head"
        f" FROM {place['table']} WHERE {place['column']} IS NOT NULL"
        f" AND {key_of(place['table'])} = $1"
        for place in places
    }
    # The second factors of the merchant's users.
    queries["person"] = (
        f"SELECT substring(totp_sealed FROM 1 FOR {HEAD_BYTES}) AS head"
        " FROM person p JOIN membership m ON m.person_id = p.id"
        " WHERE totp_sealed IS NOT NULL AND m.merchant_id = $1"
    )
    for table, sql in queries.items():
        heads = [row["head"] for row in await source.records(sql, merchant_id)]
        stale = sum(not keyring.is_current(head) for head in heads)
        if stale:
            yield (
                f"{stale} encrypted values in the table {table} have another master key than the"
                " second cell: run `manilla master-key rewrap` in this cell first."
            )


async def _merchant_problems(
    source: Database, merchant_id: int, is_copied: bool
) -> AsyncIterator[str]:
    state = await fence.state(source, merchant_id)
    if state not in (("copying", "closing") if is_copied else (None,)):
        yield f"Its fence in this cell is `{state}`."
    if await source.has_row(
        "SELECT true FROM posting WHERE merchant_id = $1 AND trx_id = 'carried_forward'",
        merchant_id,
    ):
        yield (
            "It has archived transactions, which cannot be moved. Leave the merchant in this cell."
        )
    if await source.has_row(
        "SELECT true FROM split WHERE $1 IN (merchant_id, owner_id)"
        " UNION ALL SELECT true FROM split_partner"
        " WHERE $1 IN (merchant_id, owner_id) AND status <> 'invited'"
        " UNION ALL SELECT true FROM merchant"
        " WHERE $1 IN (parent_id, id) AND parent_id IS NOT NULL",
        merchant_id,
    ):
        yield (
            "It shares payments with other merchants of this cell, or is or has a sub-account."
            " Leave the merchant in this cell."
        )
    waiting = await source.number(
        "SELECT count(*) FROM approval WHERE merchant_id = $1 AND status = 'waiting'", merchant_id
    )
    if waiting:
        yield (
            f"Changes that wait for a second administrator: {waiting}. `manilla approval list`"
            " shows them: approve or reject each of them, then run the move again."
        )


async def _provider_problems(
    source: Database, target: Database, keyring: Keyring, merchant_id: int
) -> AsyncIterator[str]:
    """Finds accounts through which the merchant has paid and that the second cell cannot query.

    The status of a transfer is only conclusive if it comes from the account that sent it.
    """
    used = " UNION ".join(
        f"SELECT provider FROM {table} WHERE merchant_id = $1 AND provider IS NOT NULL"
        for table in tables_with_provider()
    )
    rows = await source.records(f"{used} ORDER BY provider", merchant_id)
    here, there = await credentials.load(source, keyring), await credentials.load(target, keyring)
    for row in rows:
        name = row["provider"]
        ours, theirs = here.get(name), there.get(name)
        if ours is None or not ours.given:
            continue
        if theirs is None or not theirs.given:
            yield f"The second cell does not have the provider account {name}."
        elif ours.given != theirs.given:
            yield f"The provider account {name} has other credentials in the second cell."


async def _method_problems(source: Database, target: Database) -> AsyncIterator[str]:
    """Finds methods that differ. Merchants use the ids of methods in their requests."""
    sql = f"SELECT {', '.join(_METHOD)} FROM method"
    theirs: dict[str, Any] = {row["code"]: row for row in await target.records(sql)}
    for row in await source.records(f"{sql} WHERE active ORDER BY id"):
        other = theirs.get(row["code"])
        if other is None:
            yield f"The second cell does not have the method {row['code']}."
            continue
        differing = [name for name in _METHOD if row[name] != other[name]]
        if differing:
            yield f"The method {row['code']} differs in the second cell: {', '.join(differing)}."
