"""Ends the hold after a restore. Nothing is sent until every provider has been queried.

A restored database is older than the state at the providers. A transfer that is unsent in the
database may have been sent after the backup. The provider would reject a second send, and because
of the rejection the transfer would wrongly fail. Therefore the providers are queried about these
transfers first. A transfer that a provider knows is marked as sent: workers query its status and
never send it.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from manilla.job_kinds import JobKind
from manilla.kit.database.connections import Database
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.ledger import trx_ids
from manilla.merchants import outgoing
from manilla.payouts import attempts
from manilla.platform import settings
from manilla.providers.port import (
    Done,
    RefusalCode,
    Refused,
    TransferState,
    TransferStatus,
    Unknown,
    WebhookSubject,
)
from manilla.providers.rails import Rails
from manilla.refunds import store
from manilla.transfers import sending
from manilla.transfers.events import ProviderState, is_known
from manilla.transfers.sending import PAYOUTS, REFUNDS, TransferTable

Each = TypeVar("Each")

CONCURRENCY = 8
OPEN_MAX = 10_000
CANNOT_BE_QUERIED = (
    "The refund may have been sent, but its provider has no status query for refunds."
)


class NotReleased(Refusal):
    message = "Payouts stay on hold because a provider sent no usable response."


class OpenTransfer(msgspec.Struct, frozen=True):
    merchant_id: int
    trx_id: str
    provider: str
    currency: str
    amount_minor: int
    sent_at: datetime | None
    # Whether the provider was chosen automatically. If so, another provider may have the payout.
    is_routed: bool

    @property
    def amount(self) -> Money:
        return Money(self.currency, self.amount_minor)


class FoundTransfer(msgspec.Struct, frozen=True):
    """An open transfer, and its status at the provider."""

    kind: WebhookSubject
    transfer: OpenTransfer
    # The transfer's status at the provider, or None if the response was not usable.
    said: ProviderState | None
    problem: str = ""
    other_providers_doubt: bool = False  # whether another provider may have received the transfer

    @property
    def is_in_doubt(self) -> bool:
        """Whether the transfer is unsent in our database, but no provider has confirmed this.

        A refund is never in doubt, because it is marked as sent or left to an administrator.
        """
        if self.other_providers_doubt:
            return True
        is_payout = self.kind is WebhookSubject.TRANSFER
        return is_payout and self.transfer.sent_at is None and self.said is None


class LostTransfer(msgspec.Struct, frozen=True):
    """A payout that the provider has but our database does not."""

    reference: str
    merchant_id: int
    said: TransferState | None
    problem: str = ""

    @property
    def has_moved_nothing(self) -> bool:
        """Whether the provider reports that the transfer failed or does not exist."""
        nothing = (TransferStatus.FAILED, TransferStatus.NOT_FOUND)
        return self.said is not None and self.said.status in nothing


async def release(db: Database, rails: Rails) -> None:
    """Releases the hold.

    Raises NotReleased if a payout is unsent in our database, but a provider cannot confirm that it
    was never sent.
    """
    found = await look(db, rails)
    doubts = [each.transfer.trx_id for each in found if each.is_in_doubt]
    if doubts:
        raise NotReleased(
            f"Payouts stay on hold: there is no usable answer about {len(doubts)} of them that may "
            f"have been sent, including {doubts[0]}. To list them, run `manilla restore-check`."
        )
    await settings.change(db, "payouts_held", "false")


async def look(db: Database, rails: Rails) -> list[FoundTransfer]:
    """Queries the providers about open payouts and unsent refunds from before the hold.

    Transfers that were created during the hold cannot have been sent. Transfers that a provider
    knows are marked as sent.
    """
    since = await outgoing.held_since(db)
    payouts, refunds = await _open(db, PAYOUTS, since), await _open(db, REFUNDS, since)
    return await _gather(
        [
            *(_look_at_payout(db, rails, payout) for payout in payouts),
            *(_look_at_refund(db, rails, refund) for refund in refunds),
        ]
    )


async def _look_at_payout(db: Database, rails: Rails, payout: OpenTransfer) -> FoundTransfer:
    if payout.is_routed:
        return await _look_everywhere(db, rails, payout)
    said, problem = await _state(rails, payout.provider, payout.trx_id)
    if said is not None and is_known(said):
        await sending.note_sent(db, PAYOUTS, payout.merchant_id, payout.trx_id)
    return FoundTransfer(WebhookSubject.TRANSFER, payout, said, problem)


async def _look_everywhere(db: Database, rails: Rails, payout: OpenTransfer) -> FoundTransfer:
    """Queries every provider about a payout that may have been moved after the backup.

    If another provider has the payout, it is moved there, so that it is not sent again.
    """
    providers = [each for each in rails.accounts if rails.adapter(each) is not None]
    answers = [await _state(rails, each, payout.trx_id) for each in providers]
    states = {each: said for each, (said, _) in zip(providers, answers, strict=True)}
    own = states.get(payout.provider)
    silent = [each for each, said in states.items() if said is None]
    paying = [each for each, said in states.items() if said is not None and _may_pay(said)]
    if silent or len(paying) > 1:
        problem = f"no usable answer from {', '.join(silent)}" if silent else "more than one has it"
        return FoundTransfer(
            WebhookSubject.TRANSFER, payout, own, problem, other_providers_doubt=True
        )
    if paying and paying[0] != payout.provider:
        await attempts.adopt(db, payout.merchant_id, payout.trx_id, paying[0])
        own = states[paying[0]]
    elif own is not None and is_known(own):
        await sending.note_sent(db, PAYOUTS, payout.merchant_id, payout.trx_id)
    return FoundTransfer(WebhookSubject.TRANSFER, payout, own)


def _may_pay(said: TransferState) -> bool:
    return said.status not in (TransferStatus.FAILED, TransferStatus.NOT_FOUND)


async def _look_at_refund(db: Database, rails: Rails, refund: OpenTransfer) -> FoundTransfer:
    """Queries a refund's status. If there is no usable response, the refund is marked as sent.

    From then on the refund's status is queried. The refund is sent only if the provider reports
    that it does not know it. If the provider has no status query, an administrator must decide.
    """
    answer = await rails.state(WebhookSubject.REFUND, refund.provider, refund.trx_id)
    said, problem = (answer.value, "") if isinstance(answer, Done) else (None, "no usable answer")
    if isinstance(answer, Refused) and answer.code is RefusalCode.NOT_SUPPORTED:
        problem = "left to an administrator"
        key = refund.merchant_id, refund.trx_id
        await store.leave_to_administrator(db, *key, CANNOT_BE_QUERIED)
    if said is None or is_known(said):
        await sending.note_sent(db, REFUNDS, refund.merchant_id, refund.trx_id)
    return FoundTransfer(WebhookSubject.REFUND, refund, said, problem)


async def missing(
    db: Database, rails: Rails, provider: str, references: Sequence[str]
) -> list[LostTransfer]:
    """Returns the provider's transfers that our database does not have, with their status."""
    known = await _known(db, references)
    unknown = [reference for reference in dict.fromkeys(references) if reference not in known]
    return await _gather([_ask_lost(rails, provider, reference) for reference in unknown])


async def waiting(db: Database) -> int:
    """Counts payouts that were accepted but not sent."""
    return await db.number(
        f"""
        SELECT count(*) FROM job j
          JOIN payout p ON p.merchant_id = j.merchant_id AND p.trx_id = j.subject
         WHERE j.kind = '{JobKind.TRANSFER}' AND p.status = 'pending' AND p.began_at IS NULL
           AND p.environment = 'production'"""
    )


async def _ask_lost(rails: Rails, provider: str, reference: str) -> LostTransfer:
    said, problem = await _state(rails, provider, reference)
    return LostTransfer(reference, trx_ids.merchant_of(reference) or 0, said, problem)


async def _state(rails: Rails, provider: str, reference: str) -> tuple[TransferState | None, str]:
    match await rails.state(WebhookSubject.TRANSFER, provider, reference):
        case Done(state):
            return state, ""
        case Refused(_, reason) | Unknown(reason):
            return None, reason


async def _open(db: Database, table: TransferTable, since: datetime) -> list[OpenTransfer]:
    """Finds open payouts or unsent refunds through their jobs, because there are few jobs."""
    rows = await db.rows(
        OpenTransfer,
        f"""
        SELECT found.merchant_id, found.trx_id, found.provider, found.currency,
               found.amount_minor, found.{table.sent_column} AS sent_at,
               {table.is_routed} AS is_routed
          FROM job j
         CROSS JOIN LATERAL (SELECT * FROM {table.name} AS t
               WHERE t.merchant_id = j.merchant_id AND t.trx_id = j.subject) AS found
         WHERE j.kind = $3 AND found.status = 'pending' AND found.provider IS NOT NULL
           AND found.environment = 'production' AND found.created_at <= $1
           AND ($4 OR found.{table.sent_column} IS NULL)
         ORDER BY found.created_at LIMIT $2""",
        *(since, OPEN_MAX + 1, table.job_kind, table is PAYOUTS),
    )
    if len(rows) > OPEN_MAX:
        raise NotReleased(
            f"More than {OPEN_MAX} {table.name}s are open: let the workers query them first."
        )
    return rows


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


async def _gather(queries: Sequence[Coroutine[Any, Any, Each]]) -> list[Each]:
    slots = asyncio.Semaphore(CONCURRENCY)

    async def limited(query: Coroutine[Any, Any, Each]) -> Each:
        async with slots:
            return await query

    return list(await asyncio.gather(*(limited(query) for query in queries)))
