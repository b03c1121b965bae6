"""Payment jobs: completion in the sandbox, expiry, and status queries of charges."""

from datetime import UTC, datetime, timedelta
from functools import partial

from manilla.cases import cases
from manilla.cases.cases import CaseKind
from manilla.kit.batch import Batcher
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.jobs import Job, Work
from manilla.kit.jobs.claims import save_results
from manilla.payments import sandbox_amounts, states, store
from manilla.payments.charges import ChargeService
from manilla.payments.first_charges import CHECK
from manilla.payments.initiate import COMPLETE_IN_SANDBOX, EXPIRE
from manilla.payments.payment import Charge, Payment, PaymentStatus
from manilla.payments.states import PaymentEvent
from manilla.providers import status_query
from manilla.providers.port import Answer, ChargeState, Done, ReportedChargeStatus, Unknown
from manilla.providers.rails import Schedule
from manilla.providers.slots import ProviderSlots

# After the last step, a case is opened for a charge that is still open.
# The charge's status is then queried less and less often, until the case is resolved.
SCHEDULE = Schedule(
    (
        (timedelta(minutes=2), 10),
        (timedelta(minutes=10), 20),
        (timedelta(hours=1), 60),
        (timedelta(hours=6), 300),
        (timedelta(days=3), 1800),
    )
)
CHECKS_AT_ONCE = 64


class PaymentTasks:
    def __init__(self, db: Database, charges: ChargeService) -> None:
        self._db = db
        self._charges = charges
        self._slots = ProviderSlots(CHECKS_AT_ONCE)
        self._find: Batcher[Job, Charge | None] = Batcher(partial(store.charges_of, db))
        self._results: Batcher[tuple[Job, str], None] = Batcher(partial(save_results, db))

    def job_handlers(self) -> dict[str, Work]:
        return {
            COMPLETE_IN_SANDBOX: Work(self.complete_in_sandbox, concurrency=16),
            EXPIRE: Work(self.expire, concurrency=16),
            CHECK: Work(self.check_charge, concurrency=CHECKS_AT_ONCE),
        }

    async def complete_in_sandbox(self, job: Job) -> None:
        """Completes a pending payment, or applies the late test transfer of a failed payment."""
        payment = await store.payment(self._db, job.merchant_id, job.subject)
        assert payment is not None
        is_late = payment.status is PaymentStatus.FAILED
        code = None if is_late else sandbox_amounts.failure(payment)
        if code is None and await self._was_declined(payment):
            # In production, a declined payment would fail when its link expires.
            await states.expire(self._db, job.merchant_id, job.subject)
            return
        event = PaymentEvent.PAID if code is None else PaymentEvent.DECLINED
        if event is PaymentEvent.PAID:
            await self._charges.keep_card_in_sandbox(payment)
        await states.end_in_sandbox(self._db, job.merchant_id, job.subject, event, code)

    async def _was_declined(self, payment: Payment) -> bool:
        """Whether the customer's last attempt was declined, and the customer did not try again."""
        charges = await store.charges(self._db, payment.merchant_id, payment.trx_id)
        return bool(charges) and charges[-1].error_code is not None

    async def expire(self, job: Job) -> None:
        payment = await store.payment(self._db, job.merchant_id, job.subject)
        assert payment is not None
        if payment.status is not PaymentStatus.PENDING:
            return
        # Query the provider first, because the customer may have paid at the last minute.
        await self._charges.ask_about_all(payment)
        await states.expire(self._db, job.merchant_id, job.subject)

    async def check_charge(self, job: Job) -> float | None:
        """Queries a charge until its status is final, and then once for each later webhook."""
        charge = await self._find.submit(job)
        if charge is None:
            await self._report_unknown(job)
            return None
        async with self._slots.hold(charge.provider) as has_place:
            if not has_place:
                return self._slots.busy_seconds(charge.provider)
            answer, is_credited = await self._charges.ask(charge)
        age = datetime.now(UTC) - charge.created_at
        is_overdue = SCHEDULE.is_overdue(age)
        if is_credited and not is_overdue:
            return None
        current = await store.charge(self._db, job.merchant_id, job.subject)
        assert current is not None
        if isinstance(answer, Done) and not current.is_undecided:
            if is_overdue:
                await self._close_cases(current)
            return None
        if is_overdue and not await self._report_overdue(current, answer):
            return None
        await self._results.submit((job, status_query.reported_status(answer)))
        return SCHEDULE.seconds(age)

    async def _report_overdue(self, charge: Charge, answer: Answer[ChargeState]) -> bool:
        """Opens a case for a charge that has been open for too long.

        Returns False if an administrator has resolved the case, or if the charge never existed.
        """
        if isinstance(answer, Done):
            if answer.value.status is ReportedChargeStatus.NOT_FOUND:
                await states.conclude(self._db, charge, ChargeState(ReportedChargeStatus.EXPIRED))
                return False
            kind, detail = (
                CaseKind.STILL_OPEN,
                "After three days, the provider still reports the charge as open.",
            )
        else:
            reason = answer.reason if isinstance(answer, Unknown) else answer.guidance
            kind = CaseKind.NO_ANSWER
            detail = f"For three days the provider has given no usable answer: {reason}."
        await self._report(charge, kind, detail)
        return await cases.is_open(self._db, charge.merchant_id, kind, charge.reference)

    async def _close_cases(self, charge: Charge) -> None:
        """Closes the cases about a charge that was open for too long and now has a final status."""
        async with self._db.transaction() as connection:
            for kind in (CaseKind.STILL_OPEN, CaseKind.NO_ANSWER):
                resolution = f"The provider has decided. The charge is {charge.status}."
                await cases.close(
                    connection, charge.merchant_id, kind, charge.reference, resolution
                )

    async def _report_unknown(self, job: Job) -> None:
        await cases.open_case(
            self._db,
            CaseKind.UNKNOWN_REFERENCE,
            job.subject,
            "A provider sent a signed webhook about a charge that we did not create.",
            merchant_id=job.merchant_id,
        )

    async def _report(self, charge: Charge, kind: CaseKind, detail: str) -> None:
        await cases.open_case(
            self._db,
            kind,
            charge.reference,
            detail,
            merchant_id=charge.merchant_id,
            environment=Environment.PRODUCTION,  # sandbox charges have no job
            trx_id=charge.trx_id,
            amount=charge.amount,
            provider=charge.provider,
        )
