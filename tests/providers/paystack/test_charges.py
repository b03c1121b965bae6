"""Paystack's checkout, one-time accounts and charges: our requests, and parsing responses."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from manilla.kit.money import Money
from manilla.providers.port import (
    Adapter,
    Channel,
    ChargeState,
    Done,
    HostedCheckout,
    RefusalCode,
    Refused,
    ReportedChargeStatus,
    Unknown,
    VirtualAccount,
)
from tests.providers.paystack.paystack_server import PaystackServer, example, refusal
from tests.providers.samples import CHARGE

INITIALIZE = "POST /transaction/initialize"
CHARGE_CALL = "POST /charge"
VERIFY = "GET /transaction/verify/TXN0-1"


async def test_checkout(paystack: Adapter, api: PaystackServer) -> None:
    api.on(INITIALIZE, example("initialize"))
    url = "https://checkout.paystack.com/nms6uvr1pl"
    assert await paystack.create_checkout(CHARGE) == Done(HostedCheckout(url))
    [sent] = api.recorded
    assert sent.headers["authorization"] == "Bearer sk_live_p"
    assert sent.headers["content-type"] == "application/json"
    assert sent.json == {
        "email": "ada@example.com",
        "amount": 101550,
        "currency": "NGN",
        "reference": "TXN0-1",
        "callback_url": "https://pay.example.com/return",
    }


@pytest.mark.parametrize("channel", Channel)
async def test_checkout_with_the_customers_choice(
    paystack: Adapter, api: PaystackServer, channel: Channel
) -> None:
    api.on(INITIALIZE, example("initialize"))
    await paystack.create_checkout(msgspec.structs.replace(CHARGE, channel=channel))
    assert api.recorded[-1].json["channels"] == [channel]


@pytest.mark.parametrize(
    "changes",
    [
        {"reference": "TXN0-2"},
        {"reference": None},
        {"authorization_url": "javascript:alert(1)"},
        {"authorization_url": None},
    ],
)
async def test_an_odd_checkout_is_unknown(
    paystack: Adapter, api: PaystackServer, changes: dict[str, Any]
) -> None:
    api.on(INITIALIZE, example("initialize", **changes))
    assert isinstance(await paystack.create_checkout(CHARGE), Unknown)


async def test_virtual_account(paystack: Adapter, api: PaystackServer) -> None:
    api.on(CHARGE_CALL, example("charge_by_transfer"))
    assert await paystack.create_virtual_account(CHARGE, None) == Done(
        VirtualAccount(
            bank_name="Test Bank",
            account_number="1230000927",
            account_name="PAYSTACK CHECKOUT",
            amount=Money("NGN", 101550),
            expires_at=datetime(2026, 9, 12, 13, 10, 55, tzinfo=UTC),
        )
    )
    body = api.recorded[0].json
    expires_at = datetime.fromisoformat(body.pop("bank_transfer")["account_expires_at"])
    assert timedelta(minutes=29) < expires_at - datetime.now(UTC) <= timedelta(minutes=30)
    assert body == {"email": "ada@example.com", "amount": 101550, "reference": "TXN0-1"}


async def test_a_virtual_account_for_another_amount_says_so(
    paystack: Adapter, api: PaystackServer
) -> None:
    api.on(CHARGE_CALL, example("charge_by_transfer", amount="104127"))
    answer = await paystack.create_virtual_account(CHARGE, None)
    assert isinstance(answer, Done)
    assert answer.value.amount == Money("NGN", 104127)


@pytest.mark.parametrize(
    "changes",
    [
        {"reference": "TXN0-2"},
        {"account_number": None},
        {"account_name": ""},
        {"bank": "Test Bank"},
        {"bank": [{"name": "Test Bank"}]},
        {"amount": "1015.50"},
        {"account_expires_at": "tomorrow"},
    ],
)
async def test_an_odd_virtual_account_is_unknown(
    paystack: Adapter, api: PaystackServer, changes: dict[str, Any]
) -> None:
    api.on(CHARGE_CALL, example("charge_by_transfer", **changes))
    assert isinstance(await paystack.create_virtual_account(CHARGE, None), Unknown)


async def test_a_virtual_account_only_for_naira(paystack: Adapter, api: PaystackServer) -> None:
    order = msgspec.structs.replace(CHARGE, amount=Money("USD", 100))
    assert isinstance(await paystack.create_virtual_account(order, None), Refused)
    assert api.calls == []


@pytest.mark.parametrize(
    "message",
    [
        "Invalid Amount Sent",
        "Pay with transfer is not currently supported for transactions less than NGN 100.00",
        "Currency not supported by merchant",
        "Invalid Email Address Passed",
    ],
)
async def test_a_rejected_charge(paystack: Adapter, api: PaystackServer, message: str) -> None:
    for call in (INITIALIZE, CHARGE_CALL):
        api.on(call, refusal(message), status=400)
    expected = Refused(RefusalCode.PAYMENT_DECLINED, message)
    assert await paystack.create_checkout(CHARGE) == expected
    assert await paystack.create_virtual_account(CHARGE, None) == expected


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "Duplicate Transaction Reference"),
        (400, "Duplicate charge request for reference"),
        (401, "Invalid key"),
        (429, "Please wait a few minutes and try again."),
        (500, "Internal error"),
    ],
)
async def test_a_charge_that_may_exist_is_unknown(
    paystack: Adapter, api: PaystackServer, status: int, message: str
) -> None:
    for call in (INITIALIZE, CHARGE_CALL):
        api.on(call, refusal(message), status=status)
    assert isinstance(await paystack.create_checkout(CHARGE), Unknown)
    assert isinstance(await paystack.create_virtual_account(CHARGE, None), Unknown)


async def test_a_paid_charge(paystack: Adapter, api: PaystackServer) -> None:
    api.on(VERIFY, example("verify"))
    assert await paystack.charge_state("TXN0-1") == Done(
        ChargeState(
            ReportedChargeStatus.PAID,
            paid=Money("NGN", 101550),
            fee=Money("NGN", 2523),
            reason="Successful",
            provider_reference="4099260516",
        )
    )


@pytest.mark.parametrize(
    ("amounts", "paid", "fee"),
    [
        # The customer pays the fee in addition, so the fee does not reduce the credited amount.
        ({"amount": 104127, "requested_amount": 101550, "fees": 2577}, 101550, 0),
        ({"amount": 102000, "requested_amount": 101550, "fees": 2577}, 101550, 2127),
        # A partial payment.
        ({"amount": 50000, "requested_amount": 101550, "fees": 750}, 50000, 750),
        ({"amount": 101550, "requested_amount": None, "fees": None}, 101550, None),
        ({"amount": "101550", "requested_amount": "101550", "fees": "2523"}, 101550, 2523),
        ({"amount": 101550, "requested_amount": 101550, "fees": 2523.75}, 101550, None),
        ({"amount": 101550, "requested_amount": 101550, "fees": -1}, 101550, None),
        ({"amount": 101550.0, "requested_amount": 101550, "fees": 2523.0}, 101550, 2523),
    ],
)
async def test_the_amount_that_is_credited(
    paystack: Adapter, api: PaystackServer, amounts: dict[str, Any], paid: int, fee: int | None
) -> None:
    api.on(VERIFY, example("verify", **amounts))
    answer = await paystack.charge_state("TXN0-1")
    assert isinstance(answer, Done)
    assert answer.value.paid == Money("NGN", paid)
    assert answer.value.fee == (None if fee is None else Money("NGN", fee))


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("failed", ReportedChargeStatus.FAILED),
        ("reversed", ReportedChargeStatus.FAILED),
        ("abandoned", ReportedChargeStatus.PENDING),
        ("pending", ReportedChargeStatus.PENDING),
        ("ongoing", ReportedChargeStatus.PENDING),
        ("processing", ReportedChargeStatus.PENDING),
        ("queued", ReportedChargeStatus.PENDING),
        ("pending_bank_transfer", ReportedChargeStatus.PENDING),
    ],
)
async def test_charges_that_are_not_paid(
    paystack: Adapter, api: PaystackServer, word: str, status: ReportedChargeStatus
) -> None:
    changes = {"status": word, "fees": None, "gateway_response": "Insufficient Funds"}
    api.on(VERIFY, example("verify", **changes))
    answer = await paystack.charge_state("TXN0-1")
    assert isinstance(answer, Done)
    assert answer.value == ChargeState(
        status, reason="Insufficient Funds", provider_reference="4099260516"
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"reference": "TXN0-2"},
        {"reference": None},
        {"status": "paid"},
        {"status": None},
        {"status": True},
        {"currency": "naira"},
        {"currency": None},
        {"amount": None},
        {"amount": "1015.50"},
        {"amount": 101550.5},
        {"amount": -1},
        {"amount": True},
        {"amount": [101550]},
        {"requested_amount": "many"},
    ],
)
async def test_an_odd_charge_is_unknown(
    paystack: Adapter, api: PaystackServer, changes: dict[str, Any]
) -> None:
    api.on(VERIFY, example("verify", **changes))
    assert isinstance(await paystack.charge_state("TXN0-1"), Unknown)


@pytest.mark.parametrize("status", [400, 404])
async def test_a_charge_that_paystack_does_not_know(
    paystack: Adapter, api: PaystackServer, status: int
) -> None:
    api.on(VERIFY, example("charge_not_found"), status=status)
    assert await paystack.charge_state("TXN0-1") == Done(
        ChargeState(ReportedChargeStatus.NOT_FOUND)
    )


@pytest.mark.parametrize(
    ("status", "document"),
    [
        (404, {"message": "Not Found"}),
        (404, {"status": False, "message": "Endpoint not found"}),
        (404, {"status": "error", "message": "Transaction not found"}),
        (400, {"status": False, "message": "Invalid Merchant Selected"}),
        (401, {"status": False, "message": "Transaction reference not found"}),
        (200, {"status": False, "message": "Transaction reference not found"}),
    ],
)
async def test_other_errors_do_not_say_that_a_charge_is_missing(
    paystack: Adapter, api: PaystackServer, status: int, document: Any
) -> None:
    api.on(VERIFY, document, status=status)
    assert isinstance(await paystack.charge_state("TXN0-1"), Unknown)
