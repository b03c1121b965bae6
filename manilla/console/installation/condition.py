"""The installation's condition: one line that says that all is well, or names the problems."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, date, datetime, timedelta

import msgspec

from manilla.console.providers import titles
from manilla.job_kinds import JobKind
from manilla.kit import deadline, health
from manilla.kit.clock import LAGOS
from manilla.kit.display import DAY, duration, moment_text
from manilla.kit.jobs.queues import job_queues
from manilla.mail import listing as mails
from manilla.proofs import proofs
from manilla.providers.queries import RailHealth, RailState
from manilla.reconciliation import signing
from manilla.web.page_request import PageRequest

JOB_DELAY_MAX = timedelta(minutes=2)  # as in the alert ManillaJobsLate
LEDGER_CHECK_AGE_MAX = timedelta(hours=4)
# A weekend may pass between two sign-offs.
UNSIGNED_DAYS_MAX = 3
FLOWS = {"pay_in": "payments", "pay_out": "payouts"}


class Problem(msgspec.Struct, frozen=True):
    text: str
    path: str


class ConditionPart(msgspec.Struct, frozen=True):
    """The result of one check: its problems, or a fact that shows that there is none."""

    problems: Sequence[Problem] = ()
    fact: str = ""


class Condition(msgspec.Struct, frozen=True):
    findings: Sequence[ConditionPart]

    @property
    def problems(self) -> list[Problem]:
        return [problem for finding in self.findings for problem in finding.problems]

    @property
    def facts(self) -> list[str]:
        return [finding.fact for finding in self.findings if finding.fact]


async def read(request: PageRequest) -> Condition:
    """Runs all checks. A check that takes too long is a problem too."""
    found = await asyncio.gather(*(deadline.or_none(check(request)) for check in CHECKS))
    slow = [CHECKS[check] for check, finding in zip(CHECKS, found, strict=True) if finding is None]
    late = [Problem(f"Checking {what} took too long", "/system") for what in slow]
    return Condition([*(finding for finding in found if finding), ConditionPart(late)])


async def _providers(request: PageRequest) -> ConditionPart:
    accounts, names = request.services.rails.accounts, titles(request)
    rails = await request.services.rails.health.overview()
    bad = [
        Problem(_rail_text(rail, names[rail.provider]), f"/providers/{rail.provider}")
        for rail in rails
        if rail.provider in accounts and rail.state is not RailState.UP
    ]
    return ConditionPart(bad, "providers respond")


def _rail_text(rail: RailHealth, title: str) -> str:
    flow = f"{title} {FLOWS[rail.direction]}"
    if rail.state is RailState.DOWN:
        return f"{flow}: down"
    return f"{flow}: {100 * (rail.success_share or 0):.0f} % of calls answered"


async def _jobs(request: PageRequest) -> ConditionPart:
    # A notification waits for its merchant's endpoint, so its age says nothing about the workers.
    queues = [each for each in await job_queues(request.db) if each.kind != JobKind.NOTIFY]
    oldest = min((each.oldest_due_at for each in queues if each.oldest_due_at), default=None)
    age = datetime.now(UTC) - oldest if oldest else timedelta()
    if age <= JOB_DELAY_MAX:
        return ConditionPart(fact="no job is late")
    late = duration(int(age.total_seconds()))
    return ConditionPart([Problem(f"The oldest job has waited for {late}", "/system")])


async def _ledger(request: PageRequest) -> ConditionPart:
    proof = await proofs.last(request.db)
    if proof.broken:
        count = len(proof.broken)
        rules = "rule" if count == 1 else "rules"
        return ConditionPart([Problem(f"{count} ledger {rules} violated", "/ledger")])
    if proof.ended_at is None or datetime.now(UTC) - proof.ended_at > LEDGER_CHECK_AGE_MAX:
        when = f"since {_moment(proof.ended_at)}" if proof.ended_at else "yet"
        return ConditionPart([Problem(f"The ledger has not been checked {when}", "/ledger")])
    return ConditionPart(fact=f"ledger checked {_moment(proof.ended_at)}")


async def _sign_off(request: PageRequest) -> ConditionPart:
    last = await signing.newest_day(request.db)
    if last is None:
        return ConditionPart()
    shown = last.strftime(DAY)
    if _today() - last > timedelta(days=UNSIGNED_DAYS_MAX):
        return ConditionPart(
            [Problem(f"No day after {shown} has been signed off", "/reconciliation")]
        )
    return ConditionPart(fact=f"last signed day {shown}")


async def _backup(request: PageRequest) -> ConditionPart:
    """Checks the WAL archive. Other backups are not visible to the database."""
    archive = await health.archive(request.db)
    if not archive.is_on:
        return ConditionPart()
    if archive.is_failing:
        since = f"since {_moment(archive.archived_at)}" if archive.archived_at else "yet"
        return ConditionPart([Problem(f"The WAL archive has received nothing {since}", "/system")])
    return ConditionPart(fact="WAL archive is current")


async def _mail(request: PageRequest) -> ConditionPart:
    if not request.services.has_mail:
        # In development mode, emails are only shown in the console.
        problem = Problem("This installation does not send email", "/system")
        return ConditionPart([] if request.services.is_development else [problem])
    failed = await mails.count_failed(request.db)
    if failed:
        emails = "email" if failed == 1 else "emails"
        return ConditionPart(
            [Problem(f"{failed} {emails} could not be sent", "/mail?state=failed")]
        )
    return ConditionPart(fact="email works")


def _moment(at: datetime) -> str:
    local = at.astimezone(LAGOS)
    return local.strftime("%H:%M") if local.date() == _today() else moment_text(at)


def _today() -> date:
    return datetime.now(LAGOS).date()


CHECKS: dict[Callable[[PageRequest], Awaitable[ConditionPart]], str] = {
    _providers: "the providers",
    _jobs: "the jobs",
    _ledger: "the ledger",
    _sign_off: "the signed days",
    _backup: "the WAL archive",
    _mail: "the emails",
}
