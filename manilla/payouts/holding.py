"""The hold on all payouts after a restore: nothing is sent until every provider has been queried.

A restored database is older than the state at the providers. A payout that it has as unsent may
have been sent after the backup, and a rejection of its "first" send would then wrongly end it. So
before anything is sent again, the provider is asked about each of these payouts. Those that it
knows are marked as sent: their status is queried, and they are never sent.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from manilla.kit.db import Connection, Database
from manilla.kit.errors import Refusal
from manilla.ledger import trx_ids
from manilla.payouts import queries, sending
from manilla.payouts.payout import Payout
from manilla.platform import settings
from manilla.providers.port import Done, Refused, TransferState, TransferStatus, Unknown
from manilla.providers.rails import Rails

Each = TypeVar("Each")

ASKED_AT_ONCE = 8
OPEN_MAX = 10_000


class NotHeld(Refusal):
    message = "Payouts are not on hold."


class NotReleased(Refusal):
    message = "Payouts stay on hold because a provider gave no usable answer."


class Found(msgspec.Struct, frozen=True):
    """An open payout, and what its provider knows about it."""

    payout: Payout
    said: TransferState | None  # None if there was no usable answer
    problem: str = ""

    @property
    def is_in_doubt(self) -> bool:
        """Unsent according to our database, but the provider could not confirm that."""
        return self.payout.began_at is None and self.said is None


class Lost(msgspec.Struct, frozen=True):
    """A transfer that the provider has and our database does not."""

    reference: str
    merchant_id: int
    said: TransferState | None
    problem: str = ""

    @property
    def has_moved_nothing(self) -> bool:
        """The provider itself reports that the transfer failed or does not exist."""
        nothing = (TransferStatus.FAILED, TransferStatus.NOT_FOUND)
        return self.said is not None and self.said.status in nothing


async def hold(db: Database) -> None:
    await settings.change(db, "payouts_held", "true")


async def hold_start(db: Database | Connection) -> datetime | None:
    """Returns when payouts were put on hold, or None. Always reads from the database."""
    since: datetime | None = await db.value(
        "SELECT updated_at FROM setting WHERE key = 'payouts_held' AND value = 'true'"
    )
    return since


async def held_since(db: Database) -> datetime:
    since = await hold_start(db)
    if since is None:
        raise NotHeld
    return since


async def release(db: Database, rails: Rails) -> None:
    """Releases the hold. Refuses if a payout that we have as unsent may have been sent."""
    found = await look(db, rails)
    doubts = [each.payout.trx_id for each in found if each.is_in_doubt]
    if doubts:
        raise NotReleased(
            f"Payouts stay on hold: there is no usable answer about {len(doubts)} of them that may "
            f"have been sent, including {doubts[0]}. To list them, run `manilla restore-check`."
        )
    await settings.change(db, "payouts_held", "false")


async def look(db: Database, rails: Rails) -> list[Found]:
    """Queries every open payout from before the hold; later ones cannot have been sent."""
    since = await held_since(db)
    found = await _gather([_ask(rails, payout) for payout in await _open(db, since)])
    for each in found:
        is_known = each.said is not None and each.said.status is not TransferStatus.NOT_FOUND
        if is_known and each.payout.began_at is None:
            await sending.note_sent(db, each.payout.merchant_id, each.payout.trx_id)
    return found


async def missing(
    db: Database, rails: Rails, provider: str, references: Sequence[str]
) -> list[Lost]:
    """Returns the provider's transfers that our database does not have, with their status."""
    known = await _known(db, references)
    unknown = [reference for reference in dict.fromkeys(references) if reference not in known]
    return await _gather([_ask_lost(rails, provider, reference) for reference in unknown])


async def waiting(db: Database) -> int:
    """Counts payouts that were accepted and not sent."""
    return await db.number(
        """
        SELECT count(*) FROM job j
          JOIN payout p ON p.merchant_id = j.merchant_id AND p.trx_id = j.subject
         WHERE j.kind = 'transfer' AND p.status = 'pending' AND p.began_at IS NULL
           AND p.environment = 'production'"""
    )


async def _ask(rails: Rails, payout: Payout) -> Found:
    assert payout.provider is not None
    said, problem = await _state(rails, payout.provider, payout.trx_id)
    return Found(payout, said, problem)


async def _ask_lost(rails: Rails, provider: str, reference: str) -> Lost:
    said, problem = await _state(rails, provider, reference)
    return Lost(reference, trx_ids.merchant_of(reference) or 0, said, problem)


async def _state(rails: Rails, provider: str, reference: str) -> tuple[TransferState | None, str]:
    adapter = rails.adapter(provider)
    if adapter is None:
        return None, f"{provider} is not configured"
    match await adapter.transfer_state(reference):
        case Done(state):
            return state, ""
        case Refused(_, reason) | Unknown(reason):
            return None, reason


async def _open(db: Database, since: datetime) -> list[Payout]:
    """Finds open payouts by their jobs, of which there are few."""
    records = await db.records(
        f"""
        SELECT found.*
          FROM job j
         CROSS JOIN LATERAL (SELECT {queries.PAYOUT_COLUMNS} FROM payout
               WHERE payout.merchant_id = j.merchant_id AND payout.trx_id = j.subject) AS found
         WHERE j.kind = 'transfer' AND found.status = 'pending' AND found.provider IS NOT NULL
           AND found.environment = 'production' AND found.created_at <= $1
         ORDER BY found.created_at LIMIT $2""",
        *(since, OPEN_MAX + 1),
    )
    if len(records) > OPEN_MAX:
        raise NotReleased(
            f"More than {OPEN_MAX} payouts are open: let the workers query them first."
        )
    return [queries.read(record) for record in records]


async def _known(db: Database, references: Sequence[str]) -> set[str]:
    records = await db.records(
        """
        SELECT p.trx_id
          FROM unnest($1::bigint[], $2::text[]) AS asked (merchant_id, trx_id)
          JOIN payout p ON p.merchant_id = asked.merchant_id AND p.trx_id = asked.trx_id""",
        [trx_ids.merchant_of(reference) or 0 for reference in references],
        list(references),
    )
    return {record["trx_id"] for record in records}


async def _gather(questions: Sequence[Coroutine[Any, Any, Each]]) -> list[Each]:
    places = asyncio.Semaphore(ASKED_AT_ONCE)

    async def in_its_turn(question: Coroutine[Any, Any, Each]) -> Each:
        async with places:
            return await question

    return list(await asyncio.gather(*(in_its_turn(question) for question in questions)))
