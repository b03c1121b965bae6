"""The model accepts what correct disputes do with a merchant's money, and finds each error."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.simulation.disputed import FEE, Claim, DisputeRecord
from tests.simulation.facts import Kind, Notice, Observation
from tests.simulation.model import Bounds, Model
from tests.simulation.test_model import BALANCE, PAID, REFUNDED, history

DISPUTED = PAID - REFUNDED
CLAIM = Claim("paystack", "77", "T1-1", DISPUTED, "open", 0)
RECORD = DisputeRecord(
    *(1, "DSP1", "T1", "paystack", "77", "needs_response", ""),
    DISPUTED,
    taken=0,
    fee=0,
    commission=0,
)


def disputed(status: str = "open", **changed: int) -> tuple[Model, Observation]:
    """Returns a correct observation after the rest of a partly refunded payment is disputed."""
    model, seen = history()
    held = {"won": 0, "accepted": 100}.get(status, DISPUTED)
    is_open = status == "open"
    amounts: dict[str, Any] = {
        "withheld": held if is_open else 0,
        "taken": 0 if is_open else held,
        **changed,
    }
    ours = "needs_response" if is_open else status
    accepted = 100 if status == "accepted" else 0
    seen.claims = [replace(CLAIM, status=status, accepted=accepted)]
    seen.disputes = [replace(RECORD, **{"status": ours, "withheld": 0, **amounts})]
    seen.available[1] -= seen.disputes[0].cost
    seen.withheld, seen.short = {1: seen.disputes[0].withheld}, {1: 0}
    for message in ["Dispute Opened", *([] if is_open else [f"Dispute {status.title()}"])]:
        notice = Notice(f"msg_{message}", 1, "DSP1", message)
        seen.events.append(notice)
        seen.deliveries.append(notice)
    return model, seen


@pytest.mark.parametrize("status", ["open", "won", "lost", "accepted"])
def test_a_correct_dispute_has_no_violations(status: str) -> None:
    model, seen = disputed(status)
    assert model.check(seen) == []


def test_a_fee_that_an_administrator_recorded_is_expected_once() -> None:
    model, seen = disputed("lost", fee=FEE)
    seen.claims[0] = replace(seen.claims[0], has_fee=True)
    assert model.check(seen) == []
    model, seen = disputed("lost")
    seen.claims[0] = replace(seen.claims[0], has_fee=True)
    assert "has the fee 0" in "\n".join(model.check(seen))


def test_an_unsent_answer_may_be_submitted_before_the_provider_has_it() -> None:
    model, seen = disputed()
    seen.events.append(Notice("msg_8", 1, "DSP1", "Dispute Answered"))
    seen.deliveries.append(seen.events[-1])
    seen.disputes[0] = replace(RECORD, status="submitted", answer="sent")
    assert "is submitted, expected needs_response" in "\n".join(model.check(seen))
    seen.disputes[0] = replace(RECORD, status="submitted", answer="waiting")
    assert model.check(seen) == []


def test_what_the_wallet_cannot_cover_is_a_debt() -> None:
    model, seen = disputed("lost")
    spent = model.adjust(1, "spent", -seen.available[1] - 1)
    model.decide(spent, is_approved=True)
    seen.available[1], seen.short[1] = 0, 1
    assert model.check(seen) == []
    seen.available[1], seen.short[1] = 4, 5
    assert model.check(seen) == ["merchant 1 has 4 and owes 5"]


def _hold_nothing(seen: Observation) -> None:
    seen.disputes[0] = replace(RECORD, withheld=0)


def _hold_too_much(seen: Observation) -> None:
    seen.disputes[0] = replace(RECORD, withheld=DISPUTED + 1)


def _open_twice(seen: Observation) -> None:
    seen.disputes.append(replace(RECORD, trx_id="DSP2"))


def _open_another(seen: Observation) -> None:
    seen.disputes[0] = replace(RECORD, reference="78")


def _find_nothing(seen: Observation) -> None:
    seen.disputes.clear()


def _end_too_early(seen: Observation) -> None:
    seen.disputes[0] = replace(RECORD, status="won")


def _hold_after_the_end(seen: Observation) -> None:
    seen.claims[0] = replace(CLAIM, status="lost")
    seen.disputes[0] = replace(RECORD, status="lost")


def _hold_of_another_payment(seen: Observation) -> None:
    seen.disputes[0] = replace(RECORD, payment="T9")


def _return_a_commission(seen: Observation) -> None:
    seen.disputes[0] = replace(RECORD, commission=1)


def _owe_and_have(seen: Observation) -> None:
    seen.available[1] += 5
    seen.short[1] += 5


def _show_another_amount(seen: Observation) -> None:
    seen.withheld[1] = 1


def _lose_the_event(seen: Observation) -> None:
    del seen.events[-1], seen.deliveries[-1]


def _open_again(seen: Observation) -> None:
    seen.events.append(replace(seen.events[-1], id="msg_9"))
    seen.deliveries.append(seen.events[-1])


def _lose_the_delivery(seen: Observation) -> None:
    del seen.deliveries[-1]


REST = DISPUTED
WRONG: list[tuple[Callable[[Observation], None], str]] = [
    (_hold_nothing, f"the disputes of T1 hold 0, expected {REST} of {REST}"),
    (_hold_too_much, f"dispute 77 at rail paystack holds {REST + 1}, expected {REST}"),
    (_open_twice, "dispute 77 at rail paystack was opened 2 times"),
    (_open_another, "dispute 78 at rail paystack was opened, but its provider disputes no"),
    (_find_nothing, "dispute 77 at rail paystack of T1 was not opened"),
    (_end_too_early, "dispute 77 at rail paystack (DSP1) is won, expected needs_response"),
    (_hold_after_the_end, f"is lost: it withholds {REST}, took 0"),
    (_hold_of_another_payment, "(DSP1) belongs to T9, expected T1"),
    (_return_a_commission, "has returned a commission of 1"),
    (_owe_and_have, f"merchant 1 has {BALANCE - REST + 5} and owes 5"),
    (_show_another_amount, f"merchant 1 sees 1 withheld, expected {REST}"),
    (_lose_the_event, "(DSP1) is needs_response and has the events []"),
    (_open_again, "has the events ['Dispute Opened', 'Dispute Opened']"),
    (_lose_the_delivery, "the endpoint got [], the events are ['Dispute Opened']"),
]


@pytest.mark.parametrize(("tamper", "expected"), WRONG, ids=[each.__name__ for each, _ in WRONG])
def test_the_model_finds_a_wrong_dispute(
    tamper: Callable[[Observation], None], expected: str
) -> None:
    model, seen = disputed()
    tamper(seen)
    assert expected in "\n".join(model.check(seen))


def test_several_disputes_of_a_payment_hold_at_most_what_is_left() -> None:
    model, seen = disputed()
    seen.claims.append(replace(CLAIM, reference="78"))
    more = replace(RECORD, trx_id="DSP2", reference="78", withheld=0)
    seen.disputes.append(more)
    for notices in (seen.events, seen.deliveries):
        notices.append(Notice("msg_8", 1, "DSP2", "Dispute Opened"))
    assert model.check(seen) == []
    seen.disputes[1] = replace(more, withheld=1)
    assert f"the disputes of T1 hold {REST + 1}" in "\n".join(model.check(seen))


def test_a_dispute_of_an_unpaid_payment_must_not_be_opened() -> None:
    model, seen = disputed()
    seen.charges = [replace(each, status="failed") for each in seen.charges]
    assert "its provider disputes no successful payment" in "\n".join(model.check(seen))


def test_a_dispute_explains_any_part_of_its_amount_until_it_is_decided() -> None:
    model, seen = disputed("lost")
    for operation in model.operations.values():
        if operation.trx_id:
            model.see(operation, seen.statuses[operation.trx_id])
    model.dispute(1, "1-5", DISPUTED)
    assert model.bounds(1) == Bounds(BALANCE - DISPUTED - FEE, BALANCE)
    model.settle_disputes(seen)
    assert model.bounds(1) == Bounds(BALANCE - DISPUTED, BALANCE - DISPUTED)
    model.change_dispute(1, ("1-5", "paystack:77"), DISPUTED)
    assert model.bounds(1) == Bounds(BALANCE - DISPUTED - FEE, BALANCE)
    assert [key for key in model.operations if key[1] is Kind.DISPUTE] == [
        (1, Kind.DISPUTE, "paystack:77")
    ]
