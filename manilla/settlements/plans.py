"""A merchant's settlement plan: when its balance is settled, and how much stays in the wallet."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from enum import StrEnum

import msgspec

from manilla.audit import audit
from manilla.job_kinds import JobKind
from manilla.kit import jobs
from manilla.kit.clock import LAGOS
from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.rows import columns
from manilla.kit.display import money
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.ledger.scope import Tenant
from manilla.platform.settings import WEEKDAYS


class SettlementMode(StrEnum):
    MANUAL = "manual"
    DAILY = "daily"
    WEEKLY = "weekly"
    ABOVE = "above"  # the balance is settled on every day on which it exceeds a set amount


class BadPlan(Refusal):
    status, code = 400, "VALIDATION_FAILED"
    message = "The settlement plan is not valid."


class SettlementPlan(msgspec.Struct, frozen=True, kw_only=True):
    merchant_id: int
    environment: Environment
    currency: str
    mode: SettlementMode = SettlementMode.MANUAL
    weekday: int | None = None  # weekday of a weekly plan; Monday is 0
    above_minor: int | None = None  # for a plan with an amount
    reserve_minor: int = 0  # the amount that stays in the wallet
    set_by: str = ""
    set_at: datetime | None = None  # when a user set the plan; None for the default plan

    @property
    def reserve(self) -> Money:
        return Money(self.currency, self.reserve_minor)

    @property
    def above(self) -> Money | None:
        return None if self.above_minor is None else Money(self.currency, self.above_minor)

    @property
    def weekday_name(self) -> str:
        return "" if self.weekday is None else WEEKDAYS[self.weekday]

    def wanted_on(self, today: date) -> date | None:
        """Returns the last day up to today on which the plan requires a settlement.

        A plan takes effect on the day after it was set, so that the owners have time to notice it.
        """
        if self.mode is SettlementMode.MANUAL or self.set_at is None:
            return None
        day = today
        if self.mode is SettlementMode.WEEKLY:
            assert self.weekday is not None
            day -= timedelta(days=(today.weekday() - self.weekday) % 7)
        return day if day > self.set_at.astimezone(LAGOS).date() else None

    def is_due(self, today: date, last: date | None) -> bool:
        """Whether a settlement is due today. `last` is the day of the last settlement.

        A settlement that was required on a holiday is due on the next day that is not a holiday.
        """
        wanted = self.wanted_on(today)
        return wanted is not None and (last is None or last < wanted)

    def is_enough(self, available: Money) -> bool:
        """Whether the plan settles this amount, from which the reserve is already deducted."""
        return self.above is None or available >= self.above


def subject(environment: Environment, currency: str) -> str:
    """Returns the identifier of the job that settles this balance."""
    return f"{environment}:{currency}"


async def find(db: Database | Connection, tenant: Tenant, currency: str) -> SettlementPlan:
    """Returns the merchant's plan, or a plan for manual settlements if none is set."""
    plan = await db.row(
        SettlementPlan,
        f"""
        SELECT {columns(SettlementPlan)} FROM settlement_plan
         WHERE merchant_id = $1 AND environment = $2 AND currency = $3""",
        *(tenant.merchant_id, tenant.environment, currency),
    )
    return plan or SettlementPlan(
        merchant_id=tenant.merchant_id, environment=tenant.environment, currency=currency
    )


async def change(db: Database, plan: SettlementPlan) -> None:
    """Saves the plan, and adds the job that settles the balance according to this plan."""
    _check(plan)
    tenant = Tenant(plan.merchant_id, plan.environment)
    async with db.transaction() as connection:
        before = await find(connection, tenant, plan.currency)
        await connection.execute(
            """
            INSERT INTO settlement_plan (merchant_id, environment, currency, mode, weekday,
                   above_minor, reserve_minor, set_by)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
                ON CONFLICT (merchant_id, environment, currency) DO UPDATE
               SET mode = excluded.mode, weekday = excluded.weekday,
                   above_minor = excluded.above_minor, reserve_minor = excluded.reserve_minor,
                   set_by = excluded.set_by, set_at = now()""",
            *(plan.merchant_id, plan.environment, plan.currency, plan.mode, plan.weekday),
            *(plan.above_minor, plan.reserve_minor, plan.set_by),
        )
        await audit.record(
            connection,
            "settlement_plan.set",
            f"settlement_plan:{plan.merchant_id}",
            merchant_id=plan.merchant_id,
            environment=plan.environment,
            plan=describe(plan),
            before=describe(before),
        )
        if plan.mode is not SettlementMode.MANUAL:
            await jobs.put(
                connection,
                plan.merchant_id,
                JobKind.SETTLE,
                subject(plan.environment, plan.currency),
            )


def _check(plan: SettlementPlan) -> None:
    problems: Sequence[tuple[bool, str]] = (
        (plan.reserve_minor < 0, "The reserve cannot be negative."),
        (
            plan.mode is SettlementMode.WEEKLY and plan.weekday not in range(len(WEEKDAYS)),
            "Choose the weekday of the settlement.",
        ),
        (
            plan.mode is SettlementMode.ABOVE and (plan.above_minor or 0) <= 0,
            "Enter an amount above zero.",
        ),
    )
    for is_wrong, text in problems:
        if is_wrong:
            raise BadPlan(text)


DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def describe(plan: SettlementPlan) -> str:
    when = {
        SettlementMode.MANUAL: "Manually",
        SettlementMode.DAILY: "Daily",
        SettlementMode.WEEKLY: f"Every {DAYS[plan.weekday or 0]}",
        SettlementMode.ABOVE: f"When at least {money(plan.above)} is available"
        if plan.above
        else "",
    }[plan.mode]
    kept = f". {money(plan.reserve)} stays in the wallet." if plan.reserve_minor else ""
    return when + kept
