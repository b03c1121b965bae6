"""A provider's statement and the ledger agree about disputes, and a line can open one."""

import asyncio
from datetime import UTC, datetime, timedelta

from manilla import worker
from manilla.cases import cases
from manilla.cases.cases import Case, CaseKind
from manilla.disputes import statements
from manilla.disputes.dispute import AnswerState, DisputeStatus
from manilla.providers.port import EVERY_MOVEMENT
from manilla.reconciliation import importing, unmatched
from manilla.reconciliation.unmatched import Unmatched
from tests.disputes.steps import LOST, NEEDS_RESPONSE, PROVIDER, Disputes, Paid, money, naira


class Statement:
    """Provider A's statement of a payment, as a CSV file."""

    def __init__(self, disputes: Disputes, paid: Paid) -> None:
        self.disputes = disputes
        self.db = disputes.db
        self.paid = paid

    async def imports(self, *amounts: str, **columns: str) -> None:
        """Imports the payment and these lines of disputes, and runs the worker's task."""
        reference = self.paid.charge.reference
        given = {"reference": reference} | columns
        rows = [("charge", await self._charged(), {"reference": reference})]
        rows += [("dispute", amount, given) for amount in amounts]
        now = datetime.now(UTC).isoformat()
        text = "line_id,booked_at,kind,amount,reference,provider_reference\n"
        for place, (kind, amount, names) in enumerate(rows):
            named = f"{names.get('reference', '')},{names.get('provider_reference', '')}"
            text += f"{reference}-{place},{now},{kind},{amount},{named}\n"
        await importing.import_file(self.db, PROVIDER, text.encode())
        await self.run_task()

    async def run_task(self) -> None:
        await worker._disputes(self.disputes.shop.services).schedule()
        await self.disputes.shop.simulator.run_jobs()

    async def compare(self) -> None:
        await importing.compare(self.db, PROVIDER, datetime.now(UTC), EVERY_MOVEMENT)

    async def findings(self) -> list[Unmatched]:
        found = await unmatched.find_unmatched(self.db, PROVIDER)
        return [each for each in found if each.trx_id == self.paid.started.trx_id]

    async def report_later(self) -> list[Case]:
        """Opens cases as the worker does two days later, and returns the payment's cases."""
        async with self.db.transaction() as connection:
            await unmatched.report(connection, PROVIDER, datetime.now(UTC) + timedelta(days=2))
        found = await cases.cases(self.db)
        return [each for each in found if self.paid.started.trx_id in each.reference]

    async def _charged(self) -> str:
        minor: int = await self.db.value(
            """
            SELECT -sum(e.amount_minor)::bigint FROM posting p
              JOIN entry e ON e.merchant_id = p.merchant_id AND e.posting_id = p.id
             WHERE e.account = $3 AND p.merchant_id = $1
               AND p.trx_id IN (SELECT $2 UNION ALL SELECT commission_trx_id FROM payment
                                 WHERE merchant_id = $1 AND trx_id = $2
                                UNION ALL SELECT reference FROM charge
                                 WHERE merchant_id = $1 AND trx_id = $2)""",
            *(self.paid.charge.merchant_id, self.paid.started.trx_id, f"clearing:{PROVIDER}"),
        )
        return str(minor / 100)


async def test_a_debit_of_a_lost_dispute_matches_its_postings(disputes: Disputes) -> None:
    paid = await disputes.pay()
    await disputes.open(paid)
    await disputes.report(paid.reported(LOST, fee=naira("50")))
    statement = Statement(disputes, paid)
    await statement.imports("-1000", "-50")
    assert await statement.findings() == []
    assert len(await disputes.of(paid)) == 1


async def test_a_line_that_names_only_the_providers_dispute_matches(disputes: Disputes) -> None:
    paid = await disputes.pay()
    await disputes.open(paid)
    dispute = disputes.one(await disputes.report(paid.reported(LOST)))
    statement = Statement(disputes, paid)
    names = {"reference": "", "provider_reference": dispute.provider_reference}
    await statement.imports("-1000", **names)
    assert await statement.findings() == []


async def test_two_disputes_of_one_payment_match_their_lines(disputes: Disputes) -> None:
    paid = await disputes.pay()
    for name, amount in (("first", "300"), ("second", "200")):
        await disputes.report(paid.reported(LOST, amount, provider_reference=name))
    statement = Statement(disputes, paid)
    await statement.imports("-200", "-300")
    assert await statement.findings() == []


async def test_a_line_without_a_dispute_opens_one(disputes: Disputes) -> None:
    paid = await disputes.pay()
    statement = Statement(disputes, paid)
    await statement.imports("-400")
    [dispute] = await disputes.of(paid)
    assert (dispute.status, dispute.withheld) == (DisputeStatus.NEEDS_RESPONSE, naira("400"))
    assert (dispute.reason, dispute.is_due) == (statements.REASON, False)
    assert await disputes.money() == money(wallet=600, withheld=400)
    await statement.run_task()
    assert await disputes.of(paid) == [dispute]


async def test_a_debit_that_an_open_dispute_withholds_is_no_case(disputes: Disputes) -> None:
    paid = await disputes.pay()
    await disputes.open(paid)
    statement = Statement(disputes, paid)
    await statement.imports("-1000")
    assert await statement.report_later() == []
    await disputes.report(paid.reported(LOST))
    await statement.compare()
    assert await statement.findings() == []


async def test_another_debit_than_an_open_dispute_withholds_is_a_case(disputes: Disputes) -> None:
    paid = await disputes.pay()
    await disputes.open(paid)
    statement = Statement(disputes, paid)
    await statement.imports("-999")
    [case] = await statement.report_later()
    assert (case.kind, case.amount) == (CaseKind.STATEMENT_DIFFERS, naira("-999"))


async def test_the_providers_report_continues_the_dispute_of_a_statement(
    disputes: Disputes,
) -> None:
    paid = await disputes.pay()
    statement = Statement(disputes, paid)
    await statement.imports("-1000")
    [dispute] = await disputes.of(paid)
    after = disputes.one(await disputes.report(paid.reported(LOST)))
    assert after.trx_id == dispute.trx_id
    assert after.provider_reference == f"D-{paid.charge.reference}"
    assert await disputes.money() == money(taken=1000)
    await statement.compare()
    assert await statement.findings() == []


async def test_a_statement_and_a_report_at_once_open_one_dispute(disputes: Disputes) -> None:
    paid = await disputes.pay()
    statement = Statement(disputes, paid)
    await asyncio.gather(statement.imports("-1000"), disputes.open(paid))
    [dispute] = await disputes.of(paid)
    assert dispute.provider_reference == f"D-{paid.charge.reference}"


async def test_a_line_does_not_reopen_a_dispute(disputes: Disputes) -> None:
    paid = await disputes.pay()
    dispute = disputes.one(await disputes.report(paid.reported(LOST, "400")))
    statement = Statement(disputes, paid)
    await statement.imports("-1000")
    [after] = await disputes.of(paid)
    assert (after.trx_id, after.status) == (dispute.trx_id, DisputeStatus.LOST)
    [case] = await statement.report_later()
    assert case.kind == CaseKind.STATEMENT_DIFFERS


async def test_an_administrator_answers_the_dispute_of_a_statement(disputes: Disputes) -> None:
    paid = await disputes.pay()
    await Statement(disputes, paid).imports("-1000")
    [dispute] = await disputes.of(paid)
    after = await disputes.service.accept(disputes.tenant, dispute.trx_id)
    assert after.answer is AnswerState.MANUAL


async def test_a_line_above_the_payment_is_a_dispute_with_a_case(disputes: Disputes) -> None:
    paid = await disputes.pay()
    await Statement(disputes, paid).imports("-1500")
    [dispute] = await disputes.of(paid)
    assert (dispute.amount, dispute.withheld) == (naira("1500"), naira("1000"))
    assert ("unknown_dispute", f"{PROVIDER}:{dispute.provider_reference}") in (
        await disputes.shop.cases()
    )


async def test_a_number_of_the_provider_opens_a_case(disputes: Disputes) -> None:
    """The number can be the id of a dispute that we do not know."""
    paid = await disputes.pay()
    await disputes.db.execute(
        "UPDATE charge SET provider_reference = $2 WHERE merchant_id = $1",
        *(paid.charge.merchant_id, str(paid.charge.merchant_id)),
    )
    names = {"reference": "", "provider_reference": str(paid.charge.merchant_id)}
    await Statement(disputes, paid).imports("-1000", **names)
    assert await disputes.of(paid) == []
    assert await disputes.money() == money(wallet=1000)
    reference = f"{PROVIDER}:statement:{paid.charge.reference}-1"
    assert await cases.is_open(disputes.db, 0, CaseKind.UNKNOWN_DISPUTE, reference)


async def test_a_returned_debit_opens_nothing(disputes: Disputes) -> None:
    paid = await disputes.pay()
    await Statement(disputes, paid).imports("1000")
    assert await disputes.of(paid) == []


async def test_an_answered_dispute_is_not_opened_again(disputes: Disputes) -> None:
    paid = await disputes.pay()
    dispute = await disputes.open(paid)
    await disputes.service.set_evidence(disputes.tenant, dispute.trx_id, "It was delivered.")
    await disputes.service.submit(disputes.tenant, dispute.trx_id)
    await Statement(disputes, paid).imports("-1000")
    [after] = await disputes.of(paid)
    assert after.status is DisputeStatus.SUBMITTED
    again = disputes.one(await disputes.report(paid.reported(NEEDS_RESPONSE)))
    assert again.trx_id == dispute.trx_id
