"""The model of money accepts a correct history, and finds each kind of error."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.simulation.facts import Decision, Kind, Notice, Observation, Operation, ProviderObject
from tests.simulation.model import Bounds, Model

MODEL = Path(__file__).with_name("model.py")
PARTS = ("model", "disputed", "facts", "prices", "divided", "shares")
FUNDED, PAID, PAID_OUT, FEE, REFUNDED = 100_000, 20_000, 30_000, 500, 5_000
BALANCE = FUNDED + PAID - PAID_OUT - FEE - REFUNDED


def payment(reference: str = "order") -> Operation:
    return Operation(1, Kind.PAYMENT, reference, credit=PAID, amount=PAID)


def payout(reference: str = "salary") -> Operation:
    debit = PAID_OUT + FEE
    return Operation(1, Kind.PAYOUT, reference, debit=debit, credit=debit, amount=PAID_OUT)


def funded() -> Model:
    model = Model()
    model.fund(1, "opening", FUNDED)
    return model


def history() -> tuple[Model, Observation]:
    """Returns a model and a correct observation: a payment, its partial refund, and a payout."""
    model = funded()
    paid, moved = payment(), REFUNDED
    refund = Operation(1, Kind.REFUND, "return", debit=moved, credit=moved, amount=moved)
    refund.payment = paid
    for operation, trx_id in ((paid, "T1"), (payout(), "T2"), (refund, "T3")):
        model.request(operation)
        model.accept(operation, trx_id)
    model.pay(model.operations[1, Kind.PAYMENT, "order"])
    notices = [
        Notice("msg_1", 1, "T1", "Payment Completed"),
        Notice("msg_2", 1, "T2", "Payout Completed"),
        Notice("msg_3", 1, "T3", "Payment Refunded"),
    ]
    seen = Observation(
        available={1: BALANCE},
        in_flight={1: 0},
        statuses={"T1": "success", "T2": "success", "T3": "success"},
        transfers=[ProviderObject("a", "T2", PAID_OUT, "success")],
        charges=[ProviderObject("a", "T1-1", PAID, "success")],
        refunds=[ProviderObject("a", "T3", REFUNDED, "success")],
        notices=notices,
        deliveries=list(notices),
        events=list(notices),
    )
    return model, seen


def learn(model: Model, seen: Observation) -> None:
    for operation in model.operations.values():
        if operation.trx_id:
            assert model.see(operation, seen.statuses[operation.trx_id]) is None


def test_a_correct_history_has_no_violations() -> None:
    model, seen = history()
    assert model.check(seen) == []


def test_copies_of_a_notice_are_no_violation() -> None:
    model, seen = history()
    seen.notices += seen.notices
    assert model.check(seen) == []


def with_transfer() -> tuple[Model, Observation]:
    """Returns a model and a correct observation: a transfer into a customer's account."""
    model = funded()
    transfer = Operation(1, Kind.PAYMENT, "Payer 1", credit=PAID, amount=PAID, payer="Payer 1")
    model.pay(model.request(transfer))
    model.accept(transfer, "T1")
    notice = Notice("msg_1", 1, "T1", "Payment Completed")
    seen = Observation(
        available={1: FUNDED + PAID},
        statuses={"T1": "success"},
        received=[ProviderObject("kora", "Payer 1", PAID, "success")],
        notices=[notice],
        deliveries=[notice],
        events=[notice],
    )
    return model, seen


def test_a_transfer_into_an_account_is_received_with_its_amount() -> None:
    model, seen = with_transfer()
    assert model.check(seen) == []
    seen.received[0] = replace(seen.received[0], amount=PAID - 1)
    assert model.check(seen) == [
        f"payment Payer 1 of merchant 1 is about {PAID}, not {PAID - 1}",
    ]


def test_a_lost_transfer_and_one_that_nobody_sent_are_violations() -> None:
    model, seen = with_transfer()
    seen.received = [ProviderObject("kora", "Payer 2", PAID, "success")]
    assert model.check(seen) == [
        "the transfer of Payer 2 was not received",
        "payment Payer 1 of merchant 1: nobody sent this transfer",
    ]


@pytest.mark.parametrize("has_case", [True, False])
def test_a_transfer_is_held_only_with_a_case(has_case: bool) -> None:
    model, seen = with_transfer()
    failed = Notice("msg_1", 1, "T1", "Payment Failed")
    seen.notices, seen.deliveries, seen.events = [failed], [failed], [failed]
    seen.available, seen.statuses = {1: FUNDED}, {"T1": "failed"}
    seen.cases = {"T1"} if has_case else set()
    found = ["payment Payer 1 of merchant 1 (T1) is failed, expected success"]
    assert model.check(seen) == ([] if has_case else found)


@pytest.mark.parametrize(("at_bank", "is_correct"), [("failed", True), ("success", False)])
def test_a_charge_of_a_saved_card_fails_only_if_the_bank_declines_it(
    at_bank: str, is_correct: bool
) -> None:
    model, seen = history()
    again = replace(payment("again"), is_again=True)
    model.accept(model.request(again), "T4")
    seen.charges.append(ProviderObject("paystack", "T4-1", PAID, at_bank))
    seen.statuses["T4"] = "failed"
    notice = Notice("msg_4", 1, "T4", "Payment Failed")
    for each in (seen.notices, seen.deliveries, seen.events):
        each.append(notice)
    found = ["payment again of merchant 1 (T4) is failed, expected success"]
    assert model.check(seen) == ([] if is_correct else found)


def _double_transfer(seen: Observation) -> None:
    seen.transfers.append(ProviderObject("c", "T2", PAID_OUT, "success"))


def _lose_event(seen: Observation) -> None:
    del seen.events[1]


def _lose_notice(seen: Observation) -> None:
    del seen.notices[1]


def _lose_delivery(seen: Observation) -> None:
    del seen.deliveries[1]


def _repeat_event(seen: Observation) -> None:
    seen.events.append(replace(seen.events[1], id="msg_9"))


def _credit_twice(seen: Observation) -> None:
    seen.available[1] += PAID


def _make_negative(seen: Observation) -> None:
    seen.available[1] = -1


def _change_amount(seen: Observation) -> None:
    seen.transfers[0] = replace(seen.transfers[0], amount=PAID_OUT + 1)


def _send_unknown(seen: Observation) -> None:
    seen.transfers.append(ProviderObject("a", "T9", 1, "success"))


def _fail_delivered(seen: Observation) -> None:
    seen.statuses["T2"] = "failed"


def _complete_undelivered(seen: Observation) -> None:
    seen.transfers.clear()


def _forget_transaction(seen: Observation) -> None:
    del seen.statuses["T2"]


def _credit_unpaid(seen: Observation) -> None:
    seen.charges.clear()


def _leave_in_flight(seen: Observation) -> None:
    seen.in_flight[1] = PAID_OUT + FEE


def _notify_stranger(seen: Observation) -> None:
    seen.notices.append(Notice("msg_9", 1, "T9", "Payment Completed"))


def _break_ledger(seen: Observation) -> None:
    seen.broken.append("entries_sum_to_zero")


WRONG: list[tuple[Callable[[Observation], None], str]] = [
    (_double_transfer, "T2 was paid 2 times, by rails a, c"),
    (_lose_event, "payout salary of merchant 1 is success and has the events []"),
    (_lose_notice, "the receiver got [], the events are ['Payout Completed']"),
    (_lose_delivery, "the endpoint got [], the events are ['Payout Completed']"),
    (_repeat_event, "has the events ['Payout Completed', 'Payout Completed']"),
    (_credit_twice, f"merchant 1 has {BALANCE + PAID}, expected {BALANCE}"),
    (_make_negative, f"merchant 1 has -1, expected {BALANCE}"),
    (_change_amount, "sent 30001 instead of 30000"),
    (_send_unknown, "payout T9 at rail a: no merchant asked for it"),
    (_fail_delivered, "payout salary of merchant 1 (T2) is failed, expected success"),
    (_complete_undelivered, "payout salary of merchant 1 (T2) is success, expected failed"),
    (_forget_transaction, "payout salary of merchant 1 (T2) is missing, expected success"),
    (_credit_unpaid, "payment order of merchant 1 (T1) is success, expected pending"),
    (_leave_in_flight, "merchant 1 has 30500 in flight, expected 0"),
    (_notify_stranger, "merchant 1 got a notice about T9, which it did not create"),
    (_break_ledger, "the ledger violates the invariant entries_sum_to_zero"),
]


@pytest.mark.parametrize(("tamper", "expected"), WRONG, ids=[each.__name__ for each, _ in WRONG])
def test_the_model_finds_a_wrong_observation(
    tamper: Callable[[Observation], None], expected: str
) -> None:
    model, seen = history()
    tamper(seen)
    assert expected in "\n".join(model.check(seen))


def test_refunds_larger_than_their_payment_are_found() -> None:
    model, seen = history()
    paid, rest = model.operations[1, Kind.PAYMENT, "order"], PAID - REFUNDED
    for reference, trx_id, amount in (("rest", "T4", rest), ("more", "T5", 1)):
        more = Operation(1, Kind.REFUND, reference, debit=amount, credit=amount, amount=amount)
        more.payment = paid
        model.request(more)
        model.accept(more, trx_id)
        seen.statuses[trx_id] = "pending"
        found = "payment order of merchant 1 was refunded more than once" in model.check(seen)
        assert found == (trx_id == "T5")


def test_a_failed_payout_is_refunded_with_its_fee() -> None:
    model, seen = history()
    seen.transfers[0] = replace(seen.transfers[0], status="failed")
    seen.statuses["T2"] = "failed"
    seen.available[1] += PAID_OUT + FEE
    for notices in (seen.notices, seen.deliveries, seen.events):
        notices[1] = replace(notices[1], message="Payout Failed")
    assert model.check(seen) == []


def test_a_payout_that_failed_on_one_rail_may_succeed_on_another() -> None:
    model, seen = history()
    seen.transfers.append(ProviderObject("b", "T2", PAID_OUT, "failed"))
    assert model.check(seen) == []


def test_an_open_payout_is_in_flight_and_has_no_event() -> None:
    model, seen = history()
    seen.transfers[0] = replace(seen.transfers[0], status="processing")
    seen.statuses["T2"] = "pending"
    seen.in_flight[1] = PAID_OUT + FEE
    del seen.notices[1], seen.deliveries[1], seen.events[1]
    assert model.check(seen) == []


def test_an_administrators_decision_determines_a_manual_payout() -> None:
    model, seen = history()
    manual = model.operations[1, Kind.PAYOUT, "salary"]
    manual.is_manual, manual.decision = True, Decision.PAID
    seen.transfers.clear()
    assert model.check(seen) == []
    manual.decision = Decision.REJECTED
    assert model.check(seen) == [
        "payout salary of merchant 1 (T2) is success, expected failed",
    ]


def test_an_unknown_outcome_allows_an_interval() -> None:
    model, wanted = funded(), payout()
    model.request(wanted)
    assert model.bounds(1) == Bounds(FUNDED - PAID_OUT - FEE, FUNDED)
    model.accept(wanted, "T2")
    # The payout can still fail, which returns the money.
    assert model.bounds(1) == Bounds(FUNDED - PAID_OUT - FEE, FUNDED)


def test_a_delivered_payout_leaves_no_interval() -> None:
    model, seen = history()
    learn(model, seen)
    assert model.bounds(1) == Bounds(BALANCE, BALANCE)


def test_a_rejected_request_moves_nothing() -> None:
    model, wanted = funded(), payout()
    model.request(wanted)
    assert model.reject(wanted) is None
    assert model.bounds(1) == Bounds(FUNDED, FUNDED)


def test_a_payment_can_be_credited_only_after_the_customer_pays() -> None:
    model, wanted = funded(), payment()
    model.request(wanted)
    model.accept(wanted, "T1")
    assert model.bounds(1) == Bounds(FUNDED, FUNDED)
    model.pay(wanted)
    assert model.bounds(1) == Bounds(FUNDED, FUNDED + PAID)


def test_an_adjustment_moves_money_only_after_its_approval() -> None:
    model, seen = history()
    more, less = model.adjust(1, "approval 1", 700), model.adjust(1, "approval 2", -300)
    assert model.bounds(1).high - funded().bounds(1).high >= 700
    model.decide(less, is_approved=False)
    model.decide(more, is_approved=True)
    assert model.check(seen) == [f"merchant 1 has {BALANCE}, expected {BALANCE + 700}"]
    seen.available[1] += 700
    assert model.check(seen) == []


def test_a_balance_outside_the_interval_is_a_violation() -> None:
    model, wanted = funded(), payment()
    model.request(wanted)
    model.pay(wanted)
    assert model.explain(1, model.begin_reading(1), FUNDED + PAID) is None
    assert model.explain(1, model.begin_reading(1), FUNDED + 2 * PAID) == (
        f"merchant 1 has {FUNDED + 2 * PAID}, expected {FUNDED} to {FUNDED + PAID}"
    )
    assert model.explain(1, model.begin_reading(1), FUNDED - 1) is not None


def test_a_negative_balance_is_never_explained() -> None:
    model = Model()
    model.request(payout())
    assert model.explain(1, model.begin_reading(1), 0) is None
    assert model.explain(1, model.begin_reading(1), -1) == ("merchant 1 has -1, expected 0 to 0")


def test_a_change_during_a_read_widens_its_interval() -> None:
    model, wanted = funded(), payout()
    reading = model.begin_reading(1)
    model.request(wanted)
    model.reject(wanted)
    assert reading == Bounds(FUNDED - PAID_OUT - FEE, FUNDED)
    assert model.explain(1, reading, FUNDED - PAID_OUT - FEE) is None


def test_a_retry_with_another_id_is_a_violation() -> None:
    model, wanted = funded(), payout()
    assert model.request(wanted) is model.request(payout())
    assert model.accept(wanted, "T2") is None
    assert model.accept(wanted, "T2") is None
    assert model.accept(wanted, "T7") == (
        "payout salary of merchant 1 was accepted as T2 and again as T7"
    )


def test_a_rejection_after_an_acceptance_is_a_violation() -> None:
    model, wanted = funded(), payout()
    model.request(wanted)
    model.accept(wanted, "T2")
    assert model.reject(wanted) == (
        "payout salary of merchant 1 was accepted as T2 and later rejected"
    )


def test_a_failed_payment_can_still_succeed_but_not_become_pending() -> None:
    model, late = funded(), payment()
    for status in ("pending", "failed", "success"):
        assert model.see(late, status) is None
    assert model.see(late, "pending") == (
        "payment order of merchant 1 () was success and is now pending"
    )


def test_a_delivered_payout_fails_only_after_a_reversal() -> None:
    model, wanted = funded(), payout()
    assert model.see(wanted, "success") is None
    assert model.see(wanted, "failed") is not None
    model, wanted = funded(), payout()
    assert model.see(wanted, "success") is None
    model.reverse(wanted)
    assert model.see(wanted, "failed") is None


def test_a_status_makes_its_money_certain() -> None:
    model, wanted = funded(), payout()
    model.request(wanted)
    model.accept(wanted, "T2")
    model.see(wanted, "success")
    assert model.bounds(1) == Bounds(FUNDED - PAID_OUT - FEE, FUNDED - PAID_OUT - FEE)
    failed = payout("other")
    model.request(failed)
    model.accept(failed, "T4")
    model.see(failed, "failed")
    assert model.bounds(1) == Bounds(FUNDED - PAID_OUT - FEE, FUNDED - PAID_OUT - FEE)


def test_a_reversal_allows_the_money_to_return() -> None:
    model, seen = history()
    learn(model, seen)
    model.reverse(model.operations[1, Kind.PAYOUT, "salary"])
    assert model.bounds(1) == Bounds(BALANCE, BALANCE + PAID_OUT + FEE)
    seen.transfers[0] = replace(seen.transfers[0], status="reversed")
    assert model.check(seen) == []  # The webhook about the reversal has not arrived.
    seen.statuses["T2"] = "failed"
    seen.available[1] += PAID_OUT + FEE
    for notices in (seen.notices, seen.deliveries, seen.events):
        notices.append(Notice("msg_4", 1, "T2", "Payout Reversed"))
    assert model.check(seen) == []


@pytest.mark.parametrize("part", PARTS)
def test_the_model_imports_nothing_from_the_product_and_stays_short(part: str) -> None:
    lines = MODEL.with_name(f"{part}.py").read_text().splitlines()
    imported = {line.split()[1] for line in lines if line.startswith(("import ", "from "))}
    own = {"tests.simulation", *(f"tests.simulation.{name}" for name in PARTS)}
    assert not [each for each in imported - own if each.startswith(("manilla", "tests"))]
    assert len(lines) < 400
