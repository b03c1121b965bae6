"""What happens to payments by itself: completion in the sandbox, expiry, asking about charges."""

from datetime import UTC, datetime, timedelta

from manilla.cases import cases
from manilla.cases.cases import Kind
from manilla.kit.db import Database
from manilla.kit.jobs import Job, Work
from manilla.ledger.transactions import Scenario
from manilla.payments import charge_queries, queries, states
from manilla.payments.charges import CHECK, Till
from manilla.payments.initiate import COMPLETE_IN_SANDBOX, EXPIRE
from manilla.payments.payment import Charge, ErrorCode, Status
from manilla.payments.states import Event
from manilla.providers.port import Unknown

# How old a charge is, and how soon it is then asked about again.
CHECKS: tuple[tuple[timedelta, float], ...] = (
    (timedelta(minutes=2), 10),
    (timedelta(minutes=10), 20),
    (timedelta(hours=1), 60),
    (timedelta(hours=6), 300),
    (timedelta(days=3), 1800),
)


class PaymentTasks:
    def __init__(self, db: Database, till: Till) -> None:
        self._db = db
        self._till = till

    def works(self) -> dict[str, Work]:
        return {
            COMPLETE_IN_SANDBOX: Work(self.complete_in_sandbox, places=16),
            EXPIRE: Work(self.expire, places=16),
            CHECK: Work(self.check_charge, places=32),
        }

    async def complete_in_sandbox(self, job: Job) -> None:
        payment = await queries.payment(self._db, job.merchant_id, job.subject)
        assert payment is not None
        if payment.scenario is Scenario.FAILED:
            event, code = Event.DECLINED, ErrorCode.PAYMENT_DECLINED
        else:
            event, code = Event.PAID, None
        await states.settle_in_sandbox(self._db, job.merchant_id, job.subject, event, code)

    async def expire(self, job: Job) -> None:
        payment = await queries.payment(self._db, job.merchant_id, job.subject)
        assert payment is not None
        if payment.status is not Status.PENDING:
            return
        # Paid in the last minute, and its webhook still on the way: better asked than told wrong.
        await self._till.ask_about_all(payment)
        await states.give_up(
            self._db, job.merchant_id, job.subject, Event.EXPIRED, ErrorCode.EXPIRED_SESSION
        )

    async def check_charge(self, job: Job) -> float | None:
        """Asks until the provider has decided; then once for every webhook that comes after."""
        charge = await charge_queries.charge(self._db, job.merchant_id, job.subject)
        if charge is None:
            await self._report_unknown(job)
            return None
        answer = await self._till.ask(charge)
        again_seconds = _again_seconds(charge)
        if isinstance(answer, Unknown):
            if again_seconds is None:
                await self._report_silence(charge, answer)
            return again_seconds
        current = await charge_queries.charge(self._db, job.merchant_id, job.subject)
        assert current is not None
        return again_seconds if current.is_undecided else None

    async def _report_unknown(self, job: Job) -> None:
        await cases.open_case(
            self._db,
            Kind.UNKNOWN_REFERENCE,
            job.subject,
            "A provider sent a signed webhook about a charge that we did not make.",
            merchant_id=job.merchant_id,
        )

    async def _report_silence(self, charge: Charge, answer: Unknown) -> None:
        await cases.open_case(
            self._db,
            Kind.NO_ANSWER,
            charge.reference,
            f"For three days the provider could not be asked about it: {answer.reason}.",
            merchant_id=charge.merchant_id,
            trx_id=charge.trx_id,
            amount=charge.amount,
        )


def _again_seconds(charge: Charge) -> float | None:
    """None: it is too old to be asked about without a new cause."""
    age = datetime.now(UTC) - charge.created_at
    return next((seconds for limit, seconds in CHECKS if age < limit), None)
