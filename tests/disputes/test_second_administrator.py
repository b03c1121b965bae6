"""In production mode, a record that moves much money needs a second administrator's approval."""

import json
from collections.abc import AsyncIterator
from decimal import Decimal

import msgspec
import pytest

from manilla.approvals import approvals
from manilla.approvals.approvals import Approvals
from manilla.approvals.changes import ApprovalRequested, apply_or_ask
from manilla.approvals.dispute_record import DisputeRecord
from manilla.audit import audit
from manilla.audit.actor import Actor, ActorKind, acting
from manilla.audit.audit import AuditFilter
from manilla.disputes import manual, store
from manilla.disputes.dispute import Dispute, DisputeStatus
from manilla.disputes.manual import BadDecisionNote, DisputeChanged, RecordRefused
from manilla.kit.crypto import Keyring
from manilla.payments.payment import SANDBOX
from manilla.people.second_person import ApprovalNotAllowed
from manilla.platform import settings
from manilla.providers.port import DisputeState, ReportedDisputeStatus
from manilla.refunds import initiate
from tests.disputes.steps import (
    ACCEPTED,
    LOST,
    NEEDS_RESPONSE,
    PROVIDER,
    SUBMITTED,
    WON,
    Disputes,
    Paid,
    money,
    naira,
)
from tests.payments.orders import INITIATE, order
from tests.payments.shop import Shop

LIMIT = "NGN:1500"


@pytest.fixture
async def approving(disputes: Disputes, keyring: Keyring) -> AsyncIterator[Approvals]:
    """Applies changes as in production mode, where 1,500 naira can be moved alone."""
    db = disputes.db
    await settings.change(db, "adjustment_limits", LIMIT)
    yield Approvals(db, keyring, is_production_mode=True)
    await settings.change(db, "adjustment_limits", "NGN:10000000")


@pytest.fixture
def ada(disputes: Disputes) -> Actor:
    """An administrator of whom no other test knows, because totals are per administrator."""
    return Actor(ActorKind.PERSON, 50_000_000 + disputes.tenant.merchant_id, "Ada", "console")


def another(administrator: Actor) -> Actor:
    return msgspec.structs.replace(administrator, id=-(administrator.id or 0), name="Chika")


BOLA = Actor(ActorKind.PERSON, 2, "Bola", "console")


async def new_record(
    disputes: Disputes, state: DisputeState, *, needs_second: bool = False
) -> DisputeRecord:
    what = PROVIDER, state, "Seen in the dashboard"
    seen = await manual.preview(disputes.db, disputes.settings, *what)
    return DisputeRecord(*what, seen, needs_second=needs_second)


async def apply(
    approving: Approvals, disputes: Disputes, state: DisputeState, actor: Actor
) -> Dispute:
    """Records the dispute, which must need no approval."""
    with acting(actor):
        done = await apply_or_ask(approving, await new_record(disputes, state), "seen")
    assert isinstance(done, Dispute), done
    return done


async def ask(approving: Approvals, disputes: Disputes, state: DisputeState, actor: Actor) -> int:
    """Records the dispute, which must need an approval. Returns its number."""
    with acting(actor):
        done = await apply_or_ask(approving, await new_record(disputes, state), "seen")
    assert isinstance(done, ApprovalRequested), done
    return done.approval_id


async def approve(approving: Approvals, number: int) -> None:
    with acting(BOLA):
        await approvals.approve(approving, number)


async def opened(disputes: Disputes, amount: float = 2000) -> tuple[Paid, Dispute]:
    paid = await disputes.pay(amount)
    return paid, await disputes.open(paid, str(amount))


async def test_withholding_any_amount_needs_no_approval(
    disputes: Disputes, approving: Approvals, ada: Actor
) -> None:
    paid = await disputes.pay(2000)
    dispute = await apply(approving, disputes, paid.reported(NEEDS_RESPONSE, "1900"), ada)
    await apply(approving, disputes, paid.reported(SUBMITTED, "2000"), ada)
    assert (await disputes.now(dispute)).withheld == naira("2000")
    assert await disputes.money() == money(withheld=2000)


async def test_a_preview_changes_nothing(disputes: Disputes) -> None:
    paid = await disputes.pay()
    seen = (await new_record(disputes, paid.reported(LOST, fee=naira("50")))).seen
    assert (seen.trx_id, seen.taken, seen.fee) == (None, naira("1000"), naira("50"))
    assert await disputes.of(paid) == []
    assert await disputes.money() == money(wallet=1000)


@pytest.mark.parametrize("status", [WON, LOST, ACCEPTED])
async def test_small_amounts_are_moved_alone_until_they_add_up_to_the_limit(
    disputes: Disputes, approving: Approvals, ada: Actor, status: ReportedDisputeStatus
) -> None:
    first, second = [(await opened(disputes, 800))[0] for _ in range(2)]
    done = await apply(approving, disputes, first.reported(status, "800"), ada)
    assert (done.status.value, done.withheld) == (status.value, naira("0"))
    number = await ask(approving, disputes, second.reported(status, "800"), ada)
    # Each administrator has a separate limit, and approved records do not count towards it.
    other = another(ada)
    with acting(other):
        await approvals.approve(approving, number)
    third, _ = await opened(disputes, 1400)
    await apply(approving, disputes, third.reported(status, "1400"), other)
    moved = money(wallet=3000) if status is WON else money(taken=3000)
    assert await disputes.money() == moved


async def test_a_record_above_the_limit_waits_for_another_person(
    disputes: Disputes, approving: Approvals, ada: Actor
) -> None:
    paid, dispute = await opened(disputes)
    number = await ask(approving, disputes, paid.reported(WON, "2000"), ada)
    asked = await approvals.find(disputes.db, number)
    assert (asked.kind, asked.subject) == ("dispute_record", f"dispute:{dispute.trx_id}")
    assert asked.merchant_id == dispute.merchant_id
    assert asked.detail["amount"] == asked.detail["released"] == "2000.00 NGN"
    assert asked.detail["status"] == {"before": "needs_response", "after": "won"}
    assert asked.detail["note"] == "Seen in the dashboard"
    with acting(ada), pytest.raises(ApprovalNotAllowed, match="another person"):
        await approvals.approve(approving, number)
    assert (await disputes.now(dispute)).status is DisputeStatus.NEEDS_RESPONSE
    assert await disputes.money() == money(withheld=2000)

    await approve(approving, number)
    after = await disputes.now(dispute)
    assert after.status is DisputeStatus.WON
    assert after.reported_at > asked.asked_at
    assert await disputes.money() == money(wallet=2000)
    about = AuditFilter(merchant_id=dispute.merchant_id)
    lines = (await audit.list_entries(disputes.db, about))[:3]
    assert [(line.action, line.actor_name) for line in lines] == [
        ("approval.approve", "Bola"),
        ("dispute.record", "Bola"),
        ("approval.ask", "Ada"),
    ]
    with acting(BOLA), pytest.raises(ApprovalNotAllowed, match="approved already"):
        await approvals.approve(approving, number)


async def test_a_record_that_opens_and_takes_waits_and_its_approval_does_not_count(
    disputes: Disputes, approving: Approvals, ada: Actor
) -> None:
    paid = await disputes.pay(2000)
    number = await ask(approving, disputes, paid.reported(LOST, "2000"), ada)
    asked = await approvals.find(disputes.db, number)
    assert asked.subject == f"payment:{paid.started.trx_id}"
    assert (asked.detail["status"], asked.detail["taken"]) == ("lost", "2000.00 NGN")
    assert await disputes.of(paid) == []
    other = another(ada)
    with acting(other):
        await approvals.approve(approving, number)
    assert await disputes.money() == money(taken=2000)
    # The approver can still move money alone.
    small, _ = await opened(disputes, 1000)
    await apply(approving, disputes, small.reported(WON), other)


@pytest.mark.parametrize(
    ("before", "after", "amount"),
    [
        (NEEDS_RESPONSE, NEEDS_RESPONSE, "400"),  # releases 1,600
        (WON, LOST, "2000"),
        (LOST, WON, "2000"),
        (LOST, NEEDS_RESPONSE, "2000"),  # the provider returns what it took
        (LOST, LOST, "400"),
    ],
)
async def test_every_way_to_move_money_needs_approval(
    disputes: Disputes,
    approving: Approvals,
    ada: Actor,
    before: ReportedDisputeStatus,
    after: ReportedDisputeStatus,
    amount: str,
) -> None:
    paid, dispute = await opened(disputes)
    await disputes.report(paid.reported(before, "2000"))
    unchanged = await disputes.money()
    number = await ask(approving, disputes, paid.reported(after, amount), ada)
    assert await disputes.money() == unchanged
    await approve(approving, number)
    now = await disputes.now(dispute)
    assert (now.status.value, now.amount) == (after.value, naira(amount))


async def test_the_fee_counts_towards_the_limit(
    disputes: Disputes, approving: Approvals, ada: Actor
) -> None:
    paid, dispute = await opened(disputes, 1500)
    await ask(approving, disputes, paid.reported(LOST, "1500", fee=naira("0.01")), ada)
    assert (await disputes.now(dispute)).status is DisputeStatus.NEEDS_RESPONSE
    await apply(approving, disputes, paid.reported(LOST, "1500"), ada)


async def test_what_a_release_lets_another_dispute_take_counts_towards_the_limit(
    disputes: Disputes, approving: Approvals, ada: Actor
) -> None:
    paid, first = await opened(disputes)
    second = paid.reported(LOST, "2000", provider_reference="D-second")
    await disputes.report(second)
    number = await ask(approving, disputes, paid.reported(WON, "2000"), ada)
    asked = await approvals.find(disputes.db, number)
    assert (asked.detail["taken"], asked.detail.get("released")) == ("2000.00 NGN", None)
    await approve(approving, number)
    assert (await disputes.now(first)).status is DisputeStatus.WON
    assert await disputes.money() == money(taken=2000)


async def test_a_role_that_may_not_move_money_alone_can_only_withhold(
    disputes: Disputes, approving: Approvals, ada: Actor
) -> None:
    paid, _ = await opened(disputes, 100)
    with acting(ada):
        raised = await new_record(disputes, paid.reported(SUBMITTED, "100"), needs_second=True)
        assert isinstance(await apply_or_ask(approving, raised), Dispute)
        won = await new_record(disputes, paid.reported(WON, "100"), needs_second=True)
        assert isinstance(await apply_or_ask(approving, won), ApprovalRequested)


async def test_a_newer_report_of_the_provider_wins(
    disputes: Disputes, approving: Approvals, ada: Actor
) -> None:
    paid, dispute = await opened(disputes)
    number = await ask(approving, disputes, paid.reported(WON, "2000"), ada)
    await disputes.report(paid.reported(LOST, "2000"))
    with acting(BOLA), pytest.raises(DisputeChanged):
        await approvals.approve(approving, number)
    assert (await approvals.find(disputes.db, number)).status == "waiting"
    assert (await disputes.now(dispute)).status is DisputeStatus.LOST
    assert await disputes.money() == money(taken=2000)


async def test_an_approval_is_rejected_if_the_provider_opens_the_dispute_meanwhile(
    disputes: Disputes, approving: Approvals, ada: Actor
) -> None:
    paid = await disputes.pay(2000)
    number = await ask(approving, disputes, paid.reported(LOST, "2000"), ada)
    await disputes.open(paid, "2000")
    with acting(BOLA), pytest.raises(DisputeChanged):
        await approvals.approve(approving, number)
    assert await disputes.money() == money(withheld=2000)


async def test_an_approval_is_rejected_if_it_would_move_another_amount(
    disputes: Disputes, approving: Approvals, ada: Actor
) -> None:
    paid = await disputes.pay(2000)
    number = await ask(approving, disputes, paid.reported(LOST, "2000"), ada)
    await initiate.start(disputes.db, paid.started.trx_id, "300", "Returned")
    with acting(BOLA), pytest.raises(DisputeChanged):
        await approvals.approve(approving, number)
    assert await disputes.of(paid) == []


async def test_an_answer_of_the_merchant_does_not_stop_an_approval(
    disputes: Disputes, approving: Approvals, ada: Actor
) -> None:
    paid, dispute = await opened(disputes)
    number = await ask(approving, disputes, paid.reported(WON, "2000"), ada)
    key = disputes.tenant, dispute.trx_id
    await disputes.service.set_evidence(*key, "Delivered on 3 November.")
    await disputes.service.submit(*key)
    await approve(approving, number)
    assert (await disputes.now(dispute)).status is DisputeStatus.WON


async def test_a_partial_acceptance_of_the_merchant_stops_an_approval(
    disputes: Disputes, approving: Approvals, ada: Actor
) -> None:
    paid, dispute = await opened(disputes)
    number = await ask(approving, disputes, paid.reported(ACCEPTED, "2000"), ada)
    await disputes.service.accept(disputes.tenant, dispute.trx_id, Decimal(1600))
    sent = await manual.release(
        *(disputes.db, disputes.shop.services.rails, disputes.settings),
        *(await disputes.now(dispute), "sent"),
    )
    assert sent.accepted == naira("1600")
    with acting(BOLA), pytest.raises(DisputeChanged):
        await approvals.approve(approving, number)
    assert await disputes.money() == money(withheld=2000)


async def test_wrong_records_are_rejected_before_an_approval_is_requested(
    disputes: Disputes, approving: Approvals
) -> None:
    paid = await disputes.pay(2000)
    record = await new_record(disputes, paid.reported(LOST, "2000"))
    with pytest.raises(RecordRefused, match="no charge of ours"):
        await new_record(disputes, paid.reported(LOST, "2000", charge_reference="TXN-unknown"))
    with pytest.raises(BadDecisionNote):
        await manual.preview(disputes.db, disputes.settings, PROVIDER, record.state, "")
    await disputes.open(paid, "2000")
    with pytest.raises(DisputeChanged):
        await apply_or_ask(approving, record)
    waiting = await approvals.waiting(disputes.db)
    assert [each for each in waiting if each.merchant_id == disputes.tenant.merchant_id] == []


async def test_sandbox_records_need_no_approval(
    disputes: Disputes, approving: Approvals, sandbox_shop: Shop, ada: Actor
) -> None:
    body = json.dumps(order(payment_amount=2000)).encode()
    reply = await sandbox_shop.merchant.call("POST", INITIATE, body, X_Sandbox_Scenario="disputed")
    trx_id = reply.headers["x-transaction-id"].upper()
    await sandbox_shop.simulator.run_job_now("payment.sandbox", trx_id)
    key = sandbox_shop.merchant.new.id, trx_id
    [dispute] = await store.disputes_of(disputes.db, *key)
    state = DisputeState(
        provider_reference=dispute.provider_reference,
        status=LOST,
        charge_reference=trx_id,
        amount=naira("2000"),
    )
    what = SANDBOX, state, "Seen"
    seen = await manual.preview(disputes.db, disputes.settings, *what)
    assert seen.amount >= naira("2000")
    with acting(ada):
        done = await apply_or_ask(approving, DisputeRecord(*what, seen, needs_second=True))
    assert isinstance(done, Dispute)
    assert done.status is DisputeStatus.LOST


async def test_in_development_mode_no_record_needs_approval(
    disputes: Disputes, keyring: Keyring, ada: Actor
) -> None:
    developing = Approvals(disputes.db, keyring, is_production_mode=False)
    paid, _ = await opened(disputes)
    await apply(developing, disputes, paid.reported(WON, "2000"), ada)
