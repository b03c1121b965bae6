"""Our refund requests to Paystack, and finding a refund that does not contain our reference."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from manilla.kit.money import Money
from manilla.ledger import trx_ids
from manilla.providers.kinds.paystack import refunds
from manilla.providers.kinds.paystack.answers import NEEDS_ATTENTION
from manilla.providers.port import (
    Adapter,
    Done,
    KnownAs,
    RefundState,
    RefusalCode,
    Refused,
    ReportedRefundStatus,
    Unknown,
)
from tests.providers.paystack.paystack_server import PaystackServer, example, query, refusal
from tests.providers.samples import REFUND

CREATE = "POST /refund"
FETCH = "GET /refund/3018284"
LIST = "GET /refund"
VERIFY = "GET /transaction/verify/TXN0-1"
CHARGE_ID = str(example("verify")["data"]["id"])
OURS, OTHER = trx_ids.new(1), trx_ids.new(1)
LOST = KnownAs(
    charge_reference="TXN0-1",
    amount=Money("NGN", 101550),
    sent_at=datetime(2026, 12, 7, 9, 21, 17, tzinfo=UTC),
)
KNOWN = KnownAs(provider_reference="3018284", charge_reference="TXN0-1")
PENDING = RefundState(ReportedRefundStatus.PENDING, Money("NGN", 101550), "3018284")
PAID = RefundState(ReportedRefundStatus.PAID, Money("NGN", 101550), "3018284")


@pytest.fixture(autouse=True)
def _knows_the_charge(api: PaystackServer) -> None:
    api.on(VERIFY, example("verify"))


def listed(*refunds: dict[str, Any]) -> Any:
    """Returns a list of refunds. Each refund is the sample refund with the given changes."""
    return example("refund_status") | {
        "data": [{**example("refund_status")["data"], **each} for each in refunds]
    }


async def test_a_refund(paystack: Adapter, api: PaystackServer) -> None:
    api.on(CREATE, example("refund"))
    assert await paystack.refund(REFUND) == Done(PENDING)
    assert api.recorded[0].json == {
        "transaction": "TXN0-1",
        "amount": 101550,
        "currency": "NGN",
        "merchant_note": "TXN9: Returned",
    }


async def test_a_refund_in_the_older_shape(paystack: Adapter, api: PaystackServer) -> None:
    api.on(CREATE, example("refund_with_a_number_as_transaction", "derived"))
    order = msgspec.structs.replace(REFUND, reason="x" * 500)
    assert await paystack.refund(order) == Done(PENDING)


@pytest.mark.parametrize(
    "changes",
    [
        {"transaction": {"reference": "TXN0-2"}},
        {"transaction_reference": "TXN0-2"},
        {"id": None},
        {"id": "../transfer"},
        {"id": "²"},
        {"id": True},
        {"status": "done"},
        {"status": None},
        {"amount": "1015.50"},
        {"amount": None},
        {"currency": None},
    ],
)
async def test_an_odd_refund_is_unknown(
    paystack: Adapter, api: PaystackServer, changes: dict[str, Any]
) -> None:
    api.on(CREATE, example("refund", **changes))
    assert isinstance(await paystack.refund(REFUND), Unknown)


@pytest.mark.parametrize(
    "message",
    [
        "Insufficient balance to fulfill this refund. Please top up.",
        "Refund amount cannot be more than transaction amount",
        "Transaction not found",
        "Your balance is not enough to fulfill this request",
    ],
)
async def test_a_rejected_refund(paystack: Adapter, api: PaystackServer, message: str) -> None:
    api.on(CREATE, refusal(message), status=400)
    assert await paystack.refund(REFUND) == Refused(RefusalCode.PAYMENT_DECLINED, message)


async def test_a_refund_with_an_invalid_field_is_rejected(
    paystack: Adapter, api: PaystackServer
) -> None:
    api.on(CREATE, refusal("amount must be a number", type="validation_error"), status=400)
    assert isinstance(await paystack.refund(REFUND), Refused)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "Transaction has been fully reversed"),
        (400, "Transaction has already been refunded"),
        (400, "Duplicate refund"),
        (400, "System Malfunction"),
        (403, "Refunds are not enabled"),
        (422, ""),
        (401, "Invalid key"),
        (429, "Please wait a few minutes and try again."),
        (500, "Insufficient balance to fulfill this refund. Please top up."),
    ],
)
async def test_a_refund_that_may_exist_is_unknown(
    paystack: Adapter, api: PaystackServer, status: int, message: str
) -> None:
    api.on(CREATE, refusal(message), status=status)
    assert isinstance(await paystack.refund(REFUND), Unknown)


@pytest.mark.parametrize(
    "fields", [{"type": "processor_error"}, {"type": "validation_error", "code": "duplicate"}]
)
async def test_the_type_and_code_of_an_error_can_mean_that_a_refund_exists(
    paystack: Adapter, api: PaystackServer, fields: dict[str, str]
) -> None:
    message = "Insufficient balance to fulfill this refund. Please top up."
    api.on(CREATE, refusal(message, **fields), status=400)
    assert isinstance(await paystack.refund(REFUND), Unknown)


@pytest.mark.parametrize(
    ("word", "status", "needs_action"),
    [
        ("pending", ReportedRefundStatus.PENDING, ""),
        ("processing", ReportedRefundStatus.PENDING, ""),
        ("needs-attention", ReportedRefundStatus.PENDING, NEEDS_ATTENTION),
        ("processed", ReportedRefundStatus.PAID, ""),
        ("failed", ReportedRefundStatus.FAILED, ""),
    ],
)
async def test_the_state_of_a_refund(
    paystack: Adapter,
    api: PaystackServer,
    word: str,
    status: ReportedRefundStatus,
    needs_action: str,
) -> None:
    api.on(FETCH, example("refund_status", status=word, amount="101550"))
    expected = RefundState(status, Money("NGN", 101550), "3018284", needs_action)
    assert await paystack.refund_state(OURS, KNOWN) == Done(expected)


@pytest.mark.parametrize(
    "changes", [{"id": 3018285}, {"transaction_reference": "TXN0-2"}, {"status": "reversed"}]
)
async def test_an_answer_about_another_refund_is_unknown(
    paystack: Adapter, api: PaystackServer, changes: dict[str, Any]
) -> None:
    api.on(FETCH, example("refund_status", **changes))
    assert isinstance(await paystack.refund_state(OURS, KNOWN), Unknown)


async def test_a_refund_that_paystack_does_not_know_is_unknown(
    paystack: Adapter, api: PaystackServer
) -> None:
    api.on(FETCH, refusal("Refund not found"), status=404)
    assert isinstance(await paystack.refund_state(OURS, KNOWN), Unknown)


async def test_without_a_charge_nobody_is_asked(paystack: Adapter, api: PaystackServer) -> None:
    assert isinstance(await paystack.refund_state(OURS), Unknown)
    assert api.calls == []


async def test_a_lost_refund_is_found_by_our_reference(
    paystack: Adapter, api: PaystackServer
) -> None:
    api.on(
        LIST,
        listed(
            {"id": 1, "merchant_note": f"{OTHER}: Returned"},
            {"merchant_note": f"{OURS}: Returned"},
            {"id": 2, "merchant_note": "by the dashboard"},
        ),
    )
    assert await paystack.refund_state(OURS, LOST) == Done(PAID)
    assert api.calls == [VERIFY, LIST]
    expected = {"transaction": CHARGE_ID, "perPage": "100", "page": "1"}
    assert query(api.recorded[1]) == expected


async def test_a_lost_refund_is_found_by_the_number_of_its_charge(
    paystack: Adapter, api: PaystackServer
) -> None:
    ours = {"transaction": int(CHARGE_ID), "merchant_note": f"{OURS}: Returned"}
    other = {**ours, "id": 1, "transaction": int(CHARGE_ID) + 1}
    # In Paystack's example of the list, refunds have no reference of their charge.
    api.on(LIST, listed(*({**each, "transaction_reference": None} for each in (other, ours))))
    assert await paystack.refund_state(OURS, LOST) == Done(PAID)


async def test_a_lost_refund_of_a_charge_without_a_number_is_searched_by_time(
    paystack: Adapter, api: PaystackServer
) -> None:
    api.on(VERIFY, example("verify", id=None))
    api.on(LIST, listed({"merchant_note": f"{OURS}: Returned"}))
    assert await paystack.refund_state(OURS, LOST) == Done(PAID)
    expected = {"from": "2026-12-06T09:21:17Z", "perPage": "100", "page": "1"}
    assert query(api.recorded[1]) == expected


async def test_a_lost_refund_is_not_searched_before_its_charge_is_known(
    paystack: Adapter, api: PaystackServer
) -> None:
    api.on(VERIFY, refusal("Invalid key"), status=401)
    assert isinstance(await paystack.refund_state(OURS, LOST), Unknown)
    assert api.calls == [VERIFY]


async def test_a_lost_refund_is_found_by_its_amount(paystack: Adapter, api: PaystackServer) -> None:
    api.on(
        LIST,
        listed(
            {},
            {"id": 1, "transaction_reference": "TXN0-2"},
            {"id": 2, "amount": 101551},
            {"id": 3},
            {"id": 4, "merchant_note": f"{OTHER}: Returned"},
        ),
    )
    known = msgspec.structs.replace(LOST, others=frozenset({"3"}))
    assert await paystack.refund_state(OURS, known) == Done(PAID)


@pytest.mark.parametrize(
    "refunds",
    [
        [],
        [{"merchant_note": f"{OTHER}: Returned"}],
        [{"transaction_reference": "TXN0-2"}],
        [{"transaction_reference": None}],
        [{"transaction_reference": None, "transaction": None}],
        [{"transaction_reference": "TXN0-2", "transaction": int(CHARGE_ID)}],
        [{"amount": 101551}],
        [{"currency": "USD"}],
        [{"id": 1}, {"id": 2}],
    ],
)
async def test_a_lost_refund_without_a_single_match_is_unknown(
    paystack: Adapter, api: PaystackServer, refunds: list[dict[str, Any]]
) -> None:
    api.on(LIST, listed(*refunds))
    assert isinstance(await paystack.refund_state(OURS, LOST), Unknown)


async def test_a_lost_refund_on_a_later_page(
    paystack: Adapter, api: PaystackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refunds, "PER_PAGE", 2)
    monkeypatch.setattr(refunds, "PAGES_MAX", 2)
    foreign = {"id": 1, "transaction_reference": "TXN0-2"}
    # A refund that is created between two requests moves an entry to the next page.
    api.on(LIST, listed(foreign, {}), listed({}))
    known = msgspec.structs.replace(LOST, sent_at=None)
    assert await paystack.refund_state(OURS, known) == Done(PAID)
    assert [query(each) for each in api.recorded[1:]] == [
        {"transaction": CHARGE_ID, "perPage": "2", "page": "1"},
        {"transaction": CHARGE_ID, "perPage": "2", "page": "2"},
    ]
    api.on(LIST, listed(foreign, {}))
    # The list has more pages than the adapter reads.
    assert isinstance(await paystack.refund_state(OURS, known), Unknown)


@pytest.mark.parametrize(
    ("status", "document"),
    [
        (200, {"status": True, "message": "Refunds retrieved", "data": {"id": 1}}),
        (200, {"status": True, "message": "Refunds retrieved", "data": None}),
        (401, {"status": False, "message": "Invalid key"}),
        (500, {"status": False, "message": "Error"}),
    ],
)
async def test_an_odd_list_is_unknown(
    paystack: Adapter, api: PaystackServer, status: int, document: Any
) -> None:
    api.on(LIST, document, status=status)
    assert isinstance(await paystack.refund_state(OURS, LOST), Unknown)
