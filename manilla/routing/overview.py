"""Reports how each rail delivers to each bank, for administrators. Problems come first."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta

import msgspec

from manilla.banks.nigeria import BY_CODE, with_code
from manilla.job_kinds import JobKind
from manilla.kit.database.connections import Database
from manilla.providers import queries
from manilla.providers.port import Direction
from manilla.routing import deliveries
from manilla.routing.outcomes import Outcomes, RailBank, quantile_seconds

SHOWN = timedelta(hours=24)
UNKNOWN_BANK = "Unknown bank"
LONG_AGO = datetime.min.replace(tzinfo=UTC)


class BankReport(msgspec.Struct, frozen=True):
    """The results of a rail's payouts to one bank, or to all banks."""

    bank: str | None  # None for all banks
    outcomes: Outcomes
    open: int
    failing_since: datetime | None = None

    @property
    def name(self) -> str:
        if self.bank is None:
            return "All banks"
        return BY_CODE[self.bank].name if self.bank in BY_CODE else UNKNOWN_BANK

    @property
    def text(self) -> str:
        return with_code(self.name, self.bank) if self.bank else self.name

    @property
    def median_seconds(self) -> int | None:
        return quantile_seconds(self.outcomes.durations, 0.5)

    @property
    def p95_seconds(self) -> int | None:
        return quantile_seconds(self.outcomes.durations, 0.95)

    @property
    def rank(self) -> tuple[bool, float, str]:
        share = self.outcomes.success_share
        return self.failing_since is None, 1.0 if share is None else share, self.name


class RailReport(msgspec.Struct, frozen=True):
    provider: str
    down_since: datetime | None  # when the rail went down for payouts
    payments_down_since: datetime | None
    drained_since: datetime | None
    total: BankReport
    banks: list[BankReport]

    @property
    def failing(self) -> list[BankReport]:
        return [each for each in self.banks if each.failing_since is not None]

    @property
    def rank(self) -> tuple[bool, bool, bool, float, str]:
        _, share, _ = self.total.rank
        return (
            self.down_since is None and self.payments_down_since is None,
            not self.failing and self.total.failing_since is None,
            self.drained_since is None,
            share,
            self.provider,
        )


BankCode = Callable[[str, str, bool], str]  # see Deliveries.bank_code


async def overview(db: Database, providers: Iterable[str], bank_code: BankCode) -> list[RailReport]:
    """Reports on these rails, and on rails that are down or had payouts in the last 24 hours."""
    ended = await deliveries.outcomes_since(db, SHOWN)
    waiting = await _open(db, bank_code)
    failing = await deliveries.read_failing(db)
    failing_rails = await deliveries.read_failing_rails(db)
    down, drained = await queries.rails_down(db), await queries.drained_rails(db)
    names = {*providers, *drained, *(provider for provider, _ in (*ended, *waiting, *down))}
    reports = [
        _rail(name, down, drained.get(name), banks, failing_rails)
        for name in names
        for banks in [_banks(name, ended, waiting, failing)]
    ]
    return sorted(reports, key=lambda report: report.rank)


def _rail(
    provider: str,
    down: Mapping[tuple[str, Direction], datetime],
    drained: datetime | None,
    banks: list[BankReport],
    failing: Mapping[str, datetime],
) -> RailReport:
    total = Outcomes()
    for each in sorted(banks, key=lambda bank: bank.outcomes.last_error_at or LONG_AGO):
        total.add(each.outcomes)
    number = sum(each.open for each in banks)
    everything = BankReport(None, total, number, failing.get(provider))
    return RailReport(
        provider,
        down.get((provider, Direction.PAY_OUT)),
        down.get((provider, Direction.PAY_IN)),
        drained,
        everything,
        banks,
    )


def _banks(
    provider: str,
    ended: Mapping[RailBank, Outcomes],
    waiting: Mapping[RailBank, int],
    failing: Mapping[RailBank, datetime],
) -> list[BankReport]:
    keys = {key for key in (*ended, *waiting) if key[0] == provider}
    reports = [
        BankReport(key[1], ended.get(key, Outcomes()), waiting.get(key, 0), failing.get(key))
        for key in keys
    ]
    return sorted(reports, key=lambda report: report.rank)


async def _open(db: Database, bank_code: BankCode) -> dict[RailBank, int]:
    """Counts open payouts by their jobs, which avoids a scan of all payouts."""
    records = await db.records(
        f"""
        SELECT p.provider, p.rail_bank_code IS NOT NULL AS is_routed, count(*) AS number,
               coalesce(p.beneficiary ->> 'bank_code', '') AS bank
          FROM job j
          JOIN payout p ON p.merchant_id = j.merchant_id AND p.trx_id = j.subject
         WHERE j.kind = '{JobKind.TRANSFER}' AND p.status = 'pending' AND p.provider IS NOT NULL
           AND p.environment = 'production'
         GROUP BY 1, 2, 4"""
    )
    numbers: Counter[RailBank] = Counter()
    for each in records:
        bank = bank_code(each["provider"], each["bank"], each["is_routed"])
        numbers[each["provider"], bank] += each["number"]
    return dict(numbers)
