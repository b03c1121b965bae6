"""The figures of a cell that an administrator sees first: open tasks, volume and ledger check."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated

import msgspec

from manilla import __version__
from manilla.approvals import approvals
from manilla.cases import listing as open_cases
from manilla.cells.directory import CellMap
from manilla.cells.registry import KnownCell
from manilla.disputes import figures as disputes
from manilla.kit import deadline
from manilla.kit.clock import last_days
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.jobs import failed
from manilla.kit.money import DECIMALS, Money
from manilla.ledger.scope import Everyone
from manilla.mail import listing as mails
from manilla.merchants import outgoing, roster
from manilla.notify import listing as notifications
from manilla.payments import figures as payments
from manilla.payouts import figures as payouts
from manilla.proofs import proofs
from manilla.providers.queries import rails_down

# Another cell's response is checked: an unknown currency cannot be shown.
Currency = Annotated[str, msgspec.Meta(pattern=rf"\A({'|'.join(DECIMALS)})\Z")]
Moment = Annotated[datetime, msgspec.Meta(tz=True)]

FAILED_NOTIFICATIONS_AGE = timedelta(days=7)


class TaskKind(msgspec.Struct, frozen=True):
    """A kind of open tasks, with the page of the console that lists them."""

    name: str
    title: str
    path: str
    icon: str
    has_environments: bool = False  # whether the page shows one environment


TASKS = (
    TaskKind("merchants", "Pending merchants", "/merchants?status=pending", "building-store"),
    TaskKind("payouts", "Manual payouts", "/payouts", "hand-stop", has_environments=True),
    TaskKind("cases", "Open cases", "/cases", "gavel", has_environments=True),
    TaskKind("disputes", "Answers to disputes", "/disputes?show=answers", "arrow-back-up"),
    TaskKind("approvals", "Pending approvals", "/approvals", "circle-check"),
    TaskKind(
        *("notifications", "Failed notifications, last 7 days", "/notifications?state=failed"),
        "bell",
    ),
    TaskKind("mails", "Failed emails", "/mail?state=failed", "mail"),
    TaskKind("jobs", "Failed jobs", "/jobs", "inbox"),
    TaskKind("rails", "Rails down", "/rails", "plug-connected"),
)


class DayVolume(msgspec.Struct, frozen=True):
    """The successful payments and payouts that were created today, in one currency."""

    currency: Currency
    paid_in_minor: int
    paid_out_minor: int

    @property
    def paid_in(self) -> Money:
        return Money(self.currency, self.paid_in_minor)

    @property
    def paid_out(self) -> Money:
        return Money(self.currency, self.paid_out_minor)


class CellOverview(msgspec.Struct, frozen=True, kw_only=True):
    """A cell's figures. A figure is None if calculating it took too long."""

    name: str
    version: str
    merchants: int | None
    tasks: Mapping[str, int | None]  # numbers of open tasks, by the name of their kind
    volumes: Sequence[DayVolume] | None
    payouts_held: bool
    broken_rules: int  # number of rules that the last ledger check found violated
    checked_at: Moment | None  # the time of the last ledger check

    @property
    def open_tasks(self) -> int:
        return sum(count or 0 for count in self.tasks.values())


async def read(db: Database, cells: CellMap, currencies: Sequence[str]) -> CellOverview:
    """Returns the figures of this installation, which must be a cell."""
    this, proof = cells.this, await proofs.last(db)
    assert this is not None
    merchants, tasks, volumes = await asyncio.gather(
        deadline.or_none(_count_merchants(db, cells, this)),
        count_tasks(db, Environment.PRODUCTION),
        deadline.or_none(_volumes(db, currencies)),
    )
    return CellOverview(
        name=this.name,
        version=__version__,
        merchants=merchants,
        tasks=tasks,
        volumes=volumes,
        payouts_held=await outgoing.hold_start(db) is not None,
        broken_rules=len(proof.broken),
        checked_at=proof.ended_at,
    )


async def count_tasks(db: Database, environment: Environment) -> dict[str, int | None]:
    """Counts the open tasks of each kind. A count that takes too long is None.

    Nobody can act on the copies of merchants that live in another cell, so they do not count.
    """
    chosen = Everyone(environment=environment, omits_copies=True)
    since = datetime.now(UTC) - FAILED_NOTIFICATIONS_AGE
    counts = {
        "merchants": roster.count_pending(db),
        "payouts": payouts.count_manual(db, chosen),
        "cases": open_cases.count_open(db, chosen),
        "disputes": disputes.count_for_operator(db, environment),
        "approvals": _count_approvals(db),
        "notifications": notifications.count_failed(db, Everyone(omits_copies=True), since),
        "mails": mails.count_failed(db),
        "jobs": failed.count_failed_jobs(db),
        "rails": _count_rails_down(db),
    }
    found = await asyncio.gather(*map(deadline.or_none, counts.values()))
    return dict(zip(counts, found, strict=True))


async def _count_merchants(db: Database, cells: CellMap, this: KnownCell) -> int:
    moved_here = [each for each, name in cells.moves.items() if name == this.name]
    moved_away = [each for each, name in cells.moves.items() if name != this.name]
    span = (this.first_merchant, this.last_merchant)
    return await roster.count_within(db, span, moved_away) + len(moved_here)


async def _count_approvals(db: Database) -> int:
    return len(await approvals.waiting(db))


async def _count_rails_down(db: Database) -> int:
    return len(await rails_down(db))


async def _volumes(db: Database, currencies: Sequence[str]) -> list[DayVolume]:
    today = last_days(1)
    # A merchant that was moved today counts only in its current cell.
    everyone = Everyone(environment=Environment.PRODUCTION, omits_copies=True)
    volumes = []
    for currency in currencies:
        [paid_in] = await payments.daily(db, everyone, currency, today)
        [paid_out] = await payouts.daily(db, everyone, currency, today)
        volumes.append(DayVolume(currency, paid_in.volume_minor, paid_out.volume_minor))
    return volumes
