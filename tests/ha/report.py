"""Compares the acknowledged writes with the database and the provider, and writes the result."""

import asyncio
import contextlib
import itertools
import statistics
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from manilla.kit.errors import Unavailable
from manilla.ledger import invariants
from tests.faults.payout_instance import PayoutInstance
from tests.ha.cluster import POLL_SECONDS
from tests.ha.disruptions import KINDS, Disruption
from tests.ha.load import RAILS, Load
from tests.support.invariants import ALL
from tools import proof

OPEN_SECONDS = 300  # All payouts and payments must be final within this time.
CALLS_AT_ONCE = 8


class Totals(msgspec.Struct, frozen=True):
    lost: Counter[str]  # acknowledged payouts and payments that do not exist, by disruption
    doubled: Counter[str]  # transfers that reached the provider more than once, by disruption
    unknown_transfers: int  # transfers at the provider that belong to no payout
    open_payouts: int  # payouts without a result, long after the last disruption
    failed_payouts: int
    uncredited_payments: int  # payments that were paid, and do not have exactly one credit
    ledger_violations: list[str]


async def check(running: PayoutInstance, load: Load) -> Totals:
    """Repeats the check if the cluster has no primary, as shortly after the last disruption."""
    async with asyncio.timeout(2 * OPEN_SECONDS):
        while True:
            with contextlib.suppress(Unavailable):
                return await _check(running, load)
            await asyncio.sleep(POLL_SECONDS)


async def _check(running: PayoutInstance, load: Load) -> Totals:
    await _until_final(running)
    found = await running.db.records("SELECT trx_id, status FROM payout")
    payouts = {record["trx_id"]: record["status"] for record in found}
    found = await running.db.records("SELECT trx_id FROM payment")
    payments = {record["trx_id"] for record in found}
    lost = [each.kind for each in load.payouts.values() if each.trx_id not in payouts]
    lost += [each.kind for each in load.payments.values() if each.trx_id not in payments]
    return Totals(
        lost=Counter(lost),
        doubled=await _doubled(running, load),
        unknown_transfers=await _transfers(running) - len(payouts),
        open_payouts=list(payouts.values()).count("pending"),
        failed_payouts=sum(status not in ("pending", "completed") for status in payouts.values()),
        uncredited_payments=await _uncredited(running, load),
        ledger_violations=[
            finding.name for finding in await invariants.check(running.db, ALL) if finding.count
        ],
    )


async def _until_final(running: PayoutInstance) -> None:
    async def count_open() -> int:
        return await running.db.number("SELECT count(*) FROM payout WHERE status = 'pending'")

    for _ in range(round(OPEN_SECONDS / POLL_SECONDS)):
        if not await count_open():
            return
        await asyncio.sleep(POLL_SECONDS)


async def _doubled(running: PayoutInstance, load: Load) -> Counter[str]:
    doubled: Counter[str] = Counter()

    async def look(rail: str, trx_id: str, kind: str) -> None:
        transfers = await running.transfers(trx_id, rail)
        doubled[kind] += sum(1 + each["duplicates"] for each in transfers) > 1

    rails = {
        record["trx_id"]: record["provider"].removeprefix("provider")
        for record in await running.db.records("SELECT trx_id, provider FROM payout")
    }
    known = (each for each in load.payouts.values() if each.trx_id in rails)
    while some := list(itertools.islice(known, CALLS_AT_ONCE)):
        await asyncio.gather(*(look(rails[each.trx_id], each.trx_id, each.kind) for each in some))
    return +doubled


async def _transfers(running: PayoutInstance) -> int:
    state = await running.control("state")
    return sum(int(state[rail]["counts"]["transfers"]) for rail in RAILS)


async def _uncredited(running: PayoutInstance, load: Load) -> int:
    credited = await running.db.records(
        "SELECT trx_id FROM posting WHERE kind = 'payment' GROUP BY trx_id HAVING count(*) = 1"
    )
    return len(set(load.paid) - {record["trx_id"] for record in credited})


class KindResult(msgspec.Struct, frozen=True):
    kind: str
    count: int
    longest_interruption_seconds: float
    elections: int
    longest_recovery_seconds: float | None  # the longest time from an election to the next write
    slowest_response_seconds: float
    unavailable: int  # responses with 503 and Retry-After
    connections_broken: int
    wrong_responses: int
    lost: int
    doubled: int


class Result(msgspec.Struct, frozen=True):
    date: str
    seed: int
    versions: dict[str, str]
    minutes: float
    disruptions: int
    repeated_after_stalls: int  # disruptions that were repeated, because the machine stopped us
    payouts_acknowledged: int
    payments_acknowledged: int
    payments_paid: int
    elections: int
    recovery_median_seconds: float | None
    recovery_max_seconds: float | None
    lost: int
    doubled: int
    unknown_transfers: int
    open_payouts: int
    failed_payouts: int
    uncredited_payments: int
    wrong_responses: list[str]
    ledger_violations: list[str]
    kinds: list[KindResult]

    @property
    def is_good(self) -> bool:
        money = (self.lost, self.doubled, self.unknown_transfers, self.uncredited_payments)
        ended = (self.open_payouts, self.failed_payouts)
        return not (any(money) or any(ended) or self.wrong_responses or self.ledger_violations)


def summarize(
    load: Load, totals: Totals, disruptions: list[Disruption], about: dict[str, Any]
) -> Result:
    counted = [each for each in disruptions if not each.was_stalled]
    recoveries = [seconds for each in counted for seconds in each.recovery_seconds]
    return Result(
        **about,
        disruptions=len(counted),
        repeated_after_stalls=len(disruptions) - len(counted),
        payouts_acknowledged=len(load.payouts),
        payments_acknowledged=len(load.payments),
        payments_paid=len(load.paid),
        elections=sum(each.elections for each in disruptions),
        recovery_median_seconds=_rounded(statistics.median, recoveries),
        recovery_max_seconds=_rounded(max, recoveries),
        lost=totals.lost.total(),
        doubled=totals.doubled.total(),
        unknown_transfers=totals.unknown_transfers,
        open_payouts=totals.open_payouts,
        failed_payouts=totals.failed_payouts,
        uncredited_payments=totals.uncredited_payments,
        wrong_responses=[f"{kind}: {text}" for kind, text in load.wrong],
        ledger_violations=totals.ledger_violations,
        kinds=[
            _summarize_kind(kind, load, totals, [each for each in counted if each.kind == kind])
            for kind in KINDS
        ],
    )


def _summarize_kind(kind: str, load: Load, totals: Totals, found: list[Disruption]) -> KindResult:
    recoveries = [seconds for each in found for seconds in each.recovery_seconds]
    return KindResult(
        kind=kind,
        count=len(found),
        longest_interruption_seconds=round(
            max((each.interruption_seconds for each in found), default=0), 1
        ),
        elections=sum(each.elections for each in found),
        longest_recovery_seconds=_rounded(max, recoveries),
        slowest_response_seconds=round(load.slowest[kind], 1),
        unavailable=load.unavailable[kind],
        connections_broken=load.broken[kind],
        wrong_responses=sum(name == kind for name, _ in load.wrong),
        lost=totals.lost[kind],
        doubled=totals.doubled[kind],
    )


def _rounded(function: Callable[[list[float]], float], values: list[float]) -> float | None:
    return round(function(values), 1) if values else None


TITLES = ("Disruption", "Count", "Longest interruption", "After election", "503", "Lost", "Doubled")


def table(result: Result) -> str:
    """Returns the result as a table in Markdown, which the operating manual shows."""
    rows = [
        (
            *(each.kind, each.count, _seconds(each.longest_interruption_seconds)),
            *(_seconds(each.longest_recovery_seconds), each.unavailable, each.lost, each.doubled),
        )
        for each in result.kinds
    ]
    interruption = max(each.longest_interruption_seconds for each in result.kinds)
    rejected = sum(each.unavailable for each in result.kinds)
    rows.append(
        (
            *("All", result.disruptions, _seconds(interruption)),
            *(_seconds(result.recovery_max_seconds), rejected, result.lost, result.doubled),
        )
    )
    return proof.table(TITLES, [[str(cell) for cell in row] for row in rows])


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value} s"
