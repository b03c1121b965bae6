"""Compares the end of a run with the model, and summarizes it."""

import asyncio
import contextlib
import statistics
import tempfile
from collections import Counter
from typing import Any

import msgspec

from tests.cells.moving import checks
from tests.cells.moving.load import EventFollower, LoadSteps
from tests.cells.moving.mover import Move, Mover
from tests.cells.moving.world import CellWorld
from tests.simulation.facts import Kind, Notice, Observation
from tests.simulation.model import MISSING
from tests.simulation.observing import BLOCKING, MAKE_DUE
from tests.simulation.shops import LOST

# How often the remaining work is looked at, and how often the result is compared with the model.
LOOKS_MAX, COMPARISONS_MAX = 600, 20
POLL_SECONDS = 1.0


class Findings(msgspec.Struct, frozen=True):
    """What the end of a run shows. Everything except `repeats_allowed` must be empty."""

    lost: list[str]  # acknowledged requests whose transaction does not exist
    doubled: list[str]  # references that reached the providers more than once
    events_missing: int  # events that a receiver or an endpoint did not get
    events_out_of_order: list[str]
    repeats_wrong: int  # repeated deliveries without a killed process that explains them
    repeats_allowed: int
    books: list[str]  # failed checks of the ledgers and of the proofs
    violations: list[str]  # all other differences from the model, such as balances

    @property
    def is_good(self) -> bool:
        money = (self.lost, self.doubled, self.books, self.violations)
        return not (
            any(money) or self.events_missing or self.events_out_of_order or self.repeats_wrong
        )


async def check(world: CellWorld, follower: EventFollower, mover: Mover) -> Findings:
    await _until_done(world, follower)
    seen, differences = await _compare(world, follower)
    violations = [*world.violations, *differences]
    excuses = [*(kill.at for kill in mover.kills if "worker" in kill.what), *mover.stalls]
    allowed, wrong = checks.count_repeats(world.receiver.moments, excuses)
    missing, disorder = 0, list[str]()
    for shop in world.shops:
        listed = await follower.whole_list(shop)
        violations += checks.find_differences(follower.followed[shop.id], listed)
        notices, deliveries = _of(shop.id, seen.notices), _of(shop.id, world.receiver.deliveries)
        missing += checks.count_missing(deliveries, listed)
        disorder += [*checks.find_disorder(notices, listed)]
        disorder += [*checks.find_disorder(deliveries, listed)]
    return Findings(
        lost=[trx_id for trx_id, status in seen.statuses.items() if status == MISSING],
        doubled=checks.find_doubled([*seen.transfers, *seen.refunds]),
        events_missing=missing,
        events_out_of_order=disorder,
        repeats_wrong=wrong,
        repeats_allowed=allowed,
        books=await _check_books(world),
        violations=violations,
    )


def _of(merchant: int, notices: list[Notice]) -> list[Notice]:
    return [notice for notice in notices if notice.merchant == merchant]


async def _until_done(world: CellWorld, follower: EventFollower) -> None:
    """Waits until all requests have a result, and no transfer or delivery is on its way."""
    for _ in range(LOOKS_MAX):
        with contextlib.suppress(*LOST):
            waiting = await _waiting(world, follower)
            print(f"waiting for {len(waiting)} jobs and requests", flush=True)
            if not waiting:
                return
        await asyncio.sleep(POLL_SECONDS)
    raise TimeoutError(f"these jobs and requests do not end: {waiting[:5]}")


async def _waiting(world: CellWorld, follower: EventFollower) -> list[str]:
    await follower.settle_open_transfers()
    for shop in world.shops:
        await LoadSteps(world, shop).resolve_unknown()
    for db in world.databases:
        await db.execute(MAKE_DUE, [*BLOCKING, "charge"], [])
    unknown = [key for shop in world.shops for key in shop.unknown]
    return [*unknown, *await follower.waiting_jobs()]


async def _compare(world: CellWorld, follower: EventFollower) -> tuple[Observation, list[str]]:
    """Compares the world with the model. Payments may take a moment until they are credited."""
    for look in range(COMPARISONS_MAX):
        try:
            seen = await follower.observe()
        except LOST as error:
            # A busy cell may answer with 503.
            print(f"the cells do not respond: {error!r}", flush=True)
        else:
            differences = world.model.check(seen)
            print(f"look {look + 1}: {len(differences)} differences", flush=True)
            if not differences:
                break
        await asyncio.sleep(POLL_SECONDS)
    return seen, differences


async def _check_books(world: CellWorld) -> list[str]:
    """Runs the commands with which an operator checks the books. Returns their errors."""
    with tempfile.TemporaryDirectory() as folder:
        errors = [
            await cell.try_command(*words)
            for cell in world.cells
            for words in (("ledger", "check"), ("prove", "--out", f"{folder}/{cell.name}"))
        ]
    return [error for error in errors if error]


class Result(msgspec.Struct, frozen=True):
    date: str
    seed: int
    versions: dict[str, str]
    minutes: float
    load_average: float  # of the last five minutes of the run, on this number of cores:
    cores: int
    moves: list[Move]
    gap_median_seconds: float | None  # of the moves whose command was not killed
    gap_max_seconds: float | None
    gap_max_killed_seconds: float | None  # the longest gap of the moves that were killed
    requests: int  # API requests of all merchants
    unavailable_elsewhere: int  # 503 and broken connections of the merchants that stay
    acknowledged: dict[str, int]  # by the type of transaction
    events: int
    deliveries: int  # to the `ipn_url` and to the webhook endpoints
    balances_explained: int  # balances that were read during the moves, and match the model
    findings: Findings

    @property
    def is_good(self) -> bool:
        return self.findings.is_good


def summarize(
    world: CellWorld,
    follower: EventFollower,
    moves: list[Move],
    findings: Findings,
    about: dict[str, Any],
) -> Result:
    counted = [move for move in moves if not move.was_stalled]
    quiet = [move.gap_seconds for move in counted if not move.command_kills]
    killed = [move.gap_seconds for move in counted if move.command_kills]
    moved = world.shops[0].id
    kinds = Counter(
        str(each.kind)
        for each in world.model.operations.values()
        if each.trx_id and each.kind is not Kind.FUNDING
    )
    receiver = world.receiver
    others = [call for call in world.calls if call.merchant != moved]
    return Result(
        **about,
        moves=moves,
        gap_median_seconds=round(statistics.median(quiet), 2) if quiet else None,
        gap_max_seconds=max(quiet, default=None),
        gap_max_killed_seconds=max(killed, default=None),
        requests=len(world.calls),
        unavailable_elsewhere=sum(not call.is_served for call in others),
        acknowledged=dict(sorted(kinds.items())),
        events=sum(map(len, follower.followed.values())),
        deliveries=len(receiver.notices) + len(receiver.deliveries),
        balances_explained=world.checks["balance during faults"],
        findings=findings,
    )
