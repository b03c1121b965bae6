"""Our exact requests to Monnify, and the parsing of documented responses.

When a test ends, every request is also checked against the schemas.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from manilla.kit.money import Money
from manilla.providers.kinds.monnify.adapter import Monnify
from manilla.providers.port import (
    Bank,
    Channel,
    ChargeState,
    Done,
    HostedCheckout,
    RefundState,
    Refused,
    ReportedChargeStatus,
    ReportedRefundStatus,
    ResolvedAccount,
    Sent,
    TransferState,
    TransferStatus,
    Unknown,
    VirtualAccount,
)
from tests.providers.monnify.conftest import ScriptedMonnify
from tests.providers.monnify.samples import DERIVED, DOCUMENTED, OWN, ok, refusal
from tests.providers.samples import CHARGE, REFUND, TRANSFER
from tests.providers.scripted import answering

INITIALIZE = "/api/v1/merchant/transactions/init-transaction"
ACCOUNT = "/api/v1/merchant/bank-transfer/init-payment"
QUERY = "/api/v2/merchant/transactions/query"
REFUND_PATH = "/api/v1/refunds/initiate-refund"


async def test_checkout(monnify: Monnify, monnify_server: ScriptedMonnify) -> None:
    monnify_server.answers(200, ok(DOCUMENTED["initialized"]))
    expected = HostedCheckout(f"https://sandbox.sdk.monnify.com/checkout/{OWN}")
    assert await monnify.create_checkout(CHARGE) == Done(expected)
    [login] = monnify_server.logins
    assert (login.method, login.body) == ("POST", b"")
    assert login.headers["authorization"] == "Basic TUtfUFJPRF8xOm0tc2VjcmV0"
    [call] = monnify_server.calls
    assert (call.method, call.target) == ("POST", INITIALIZE)
    assert call.headers["authorization"] == f"Bearer {DOCUMENTED['login']['accessToken']}"
    assert b'"amount":1015.50,' in call.body
    assert call.json == {
        "amount": 1015.5,
        "customerName": "Ada Obi",
        "customerEmail": "ada@example.com",
        "paymentReference": "TXN0-1",
        "paymentDescription": "Shoes",
        "currencyCode": "NGN",
        "contractCode": "1234567890",
        "redirectUrl": "https://pay.example.com/return",
    }


async def test_a_short_description_is_made_longer(
    monnify: Monnify, monnify_server: ScriptedMonnify
) -> None:
    monnify_server.answers(200, ok(DOCUMENTED["initialized"]))
    for description, sent in (("TV", "Payment TV"), ("", "Payment"), ("Hat", "Hat")):
        await monnify.create_checkout(msgspec.structs.replace(CHARGE, description=description))
        assert monnify_server.calls[-1].json["paymentDescription"] == sent


@pytest.mark.parametrize(
    ("channel", "sent"),
    [
        (Channel.CARD, "CARD"),
        (Channel.BANK_TRANSFER, "ACCOUNT_TRANSFER"),
        (Channel.USSD, "USSD"),
    ],
)
async def test_checkout_with_the_customers_choice(
    monnify: Monnify, monnify_server: ScriptedMonnify, channel: Channel, sent: str
) -> None:
    monnify_server.answers(200, ok(DOCUMENTED["initialized"]))
    await monnify.create_checkout(msgspec.structs.replace(CHARGE, channel=channel))
    assert monnify_server.calls[-1].json["paymentMethods"] == [sent]


async def test_one_time_account(monnify: Monnify, monnify_server: ScriptedMonnify) -> None:
    monnify_server.by_path[INITIALIZE] = answering(200, ok(DOCUMENTED["initialized"]))
    monnify_server.by_path[ACCOUNT] = answering(200, ok(DOCUMENTED["account"]))
    before = datetime.now(UTC)
    answer = await monnify.create_virtual_account(CHARGE, None)
    assert isinstance(answer, Done)
    ends = answer.value.expires_at
    assert ends is not None
    assert before < ends - timedelta(seconds=2400) < datetime.now(UTC)
    assert answer.value == VirtualAccount(
        "Sterling bank", "2209149705", "Obi Shoes-Shoes", CHARGE.amount, ends
    )
    first, second = monnify_server.calls
    assert first.json["paymentMethods"] == ["ACCOUNT_TRANSFER"]
    assert (second.target, second.json) == (ACCOUNT, {"transactionReference": OWN})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("2020-11-15T09:51:14", "2020-11-15T08:51:14+00:00"),
        ("2020-11-15T09:51:14.596774984", "2020-11-15T08:51:14.596774+00:00"),
        ("2020-11-15 09:51:14.615", "2020-11-15T08:51:14.615+00:00"),
        ("2020-11-15T09:51:14.000+00:00", "2020-11-15T09:51:14+00:00"),
        ("2020-11-15T09:51:14.759+0000", "2020-11-15T09:51:14.759+00:00"),
        ("15/11/2020 3:51:14 PM", "2020-11-15T14:51:14+00:00"),
        ("15/11/2020 03:51:14 AM", "2020-11-15T02:51:14+00:00"),
    ],
)
async def test_an_account_ends_at_the_earlier_time_and_without_a_zone_in_lagos(
    monnify: Monnify, monnify_server: ScriptedMonnify, given: str, expected: str
) -> None:
    monnify_server.by_path[INITIALIZE] = answering(200, ok(DOCUMENTED["initialized"]))
    account = {**DOCUMENTED["account"], "expiresOn": given}
    monnify_server.by_path[ACCOUNT] = answering(200, ok(account))
    answer = await monnify.create_virtual_account(CHARGE, None)
    assert isinstance(answer, Done)
    assert answer.value.expires_at == datetime.fromisoformat(expected)


async def test_an_account_with_a_fee_on_top_is_read_with_its_own_amount(
    monnify: Monnify, monnify_server: ScriptedMonnify
) -> None:
    """The platform abandons such a charge, because the customer would pay a different amount."""
    monnify_server.by_path[INITIALIZE] = answering(200, ok(DOCUMENTED["initialized"]))
    account = {**DOCUMENTED["account"], "fee": "15.00", "totalPayable": "1030.50"}
    monnify_server.by_path[ACCOUNT] = answering(200, ok(account))
    answer = await monnify.create_virtual_account(CHARGE, None)
    assert isinstance(answer, Done)
    assert answer.value.amount == Money("NGN", 103050)


@pytest.mark.parametrize(
    "odd",
    [
        {"paymentReference": "TXN0-2"},
        {"transactionReference": "MNFY|17|20261115090811|000341"},
        {"totalPayable": None},
        {"totalPayable": -5},
        {"totalPayable": "a lot"},
        {"accountNumber": None},
        {"expiresOn": "tomorrow"},
        {"expiresOn": 5},
        {"accountDurationSeconds": "soon"},
        {"accountDurationSeconds": -1},
    ],
)
async def test_an_odd_account_is_unknown(
    monnify: Monnify, monnify_server: ScriptedMonnify, odd: dict[str, Any]
) -> None:
    monnify_server.by_path[INITIALIZE] = answering(200, ok(DOCUMENTED["initialized"]))
    monnify_server.by_path[ACCOUNT] = answering(200, ok({**DOCUMENTED["account"], **odd}))
    assert isinstance(await monnify.create_virtual_account(CHARGE, None), Unknown)


async def test_an_account_needs_its_transaction(
    monnify: Monnify, monnify_server: ScriptedMonnify
) -> None:
    monnify_server.by_path[INITIALIZE] = answering(400, refusal("Duplicate payment reference"))
    assert isinstance(await monnify.create_virtual_account(CHARGE, None), Unknown)
    assert [call.target for call in monnify_server.calls] == [INITIALIZE]


async def test_charge_state(monnify: Monnify, monnify_server: ScriptedMonnify) -> None:
    monnify_server.answers(200, ok(DOCUMENTED["charge"]))
    assert await monnify.charge_state("TXN0-1") == Done(
        ChargeState(
            ReportedChargeStatus.PAID,
            Money("NGN", 101550),
            Money("NGN", 1500),
            provider_reference=OWN,
        )
    )
    [call] = monnify_server.calls
    assert (call.method, call.target) == ("GET", f"{QUERY}?paymentReference=TXN0-1")
    monnify_server.answers(200, ok(DOCUMENTED["unpaid charge"]))
    assert await monnify.charge_state("TXN0-1") == Done(
        ChargeState(ReportedChargeStatus.PENDING, provider_reference=OWN)
    )


async def test_refund(monnify: Monnify, monnify_server: ScriptedMonnify) -> None:
    monnify_server.by_path[QUERY] = answering(200, ok(DOCUMENTED["charge"]))
    monnify_server.answers(200, ok(DOCUMENTED["refund"]))
    pending = Done(RefundState(ReportedRefundStatus.PENDING, REFUND.amount))
    assert await monnify.refund(REFUND) == pending
    call = monnify_server.calls[-1]
    assert (call.method, call.target) == ("POST", REFUND_PATH)
    assert b'"refundAmount":1015.50,' in call.body
    assert call.json == {
        "transactionReference": OWN,
        "refundAmount": 1015.5,
        "refundReference": "TXN9",
        "refundReason": "Returned",
        "customerNote": "Refund",
    }
    assert await monnify.refund(msgspec.structs.replace(REFUND, reason="")) == pending
    assert await monnify.refund(msgspec.structs.replace(REFUND, reason="long " * 50)) == pending
    # This status is final in a status query, but not in the first response.
    monnify_server.answers(200, ok(DERIVED["paid refund"]))
    assert await monnify.refund(REFUND) == pending


async def test_a_refund_of_an_unknown_charge_is_not_sent(
    monnify: Monnify, monnify_server: ScriptedMonnify
) -> None:
    missing = "There's no transaction matching supplied reference."
    for answer in (answering(404, refusal(missing)), answering(500, refusal("Down"))):
        monnify_server.by_path[QUERY] = answer
        assert isinstance(await monnify.refund(REFUND), Unknown)
    assert {call.method for call in monnify_server.calls} == {"GET"}


async def test_refund_state(monnify: Monnify, monnify_server: ScriptedMonnify) -> None:
    monnify_server.answers(200, ok(DOCUMENTED["refund"]))
    amount = REFUND.amount
    answer = await monnify.refund_state("TXN9")
    assert answer == Done(RefundState(ReportedRefundStatus.PENDING, amount))
    [call] = monnify_server.calls
    assert (call.method, call.target) == ("GET", "/api/v1/refunds/TXN9")
    monnify_server.answers(200, ok(DERIVED["paid refund"]))
    answer = await monnify.refund_state("TXN9")
    assert answer == Done(RefundState(ReportedRefundStatus.PAID, amount))


async def test_banks_resolution_and_balance(
    monnify: Monnify, monnify_server: ScriptedMonnify
) -> None:
    monnify_server.answers(200, ok(DOCUMENTED["banks"]))
    assert await monnify.banks() == Done(
        [Bank("044", "Access bank"), Bank("50515", "Moniepoint Microfinance Bank")]
    )
    monnify_server.answers(200, ok(DOCUMENTED["resolved"]))
    assert await monnify.resolve("044", "0690000031") == Done(ResolvedAccount("ADA OBI"))
    monnify_server.answers(200, ok(DOCUMENTED["balance"]))
    assert await monnify.balance("NGN") == Done(Money("NGN", 90211893))
    monnify_server.answers(200, ok({"availableBalance": 10.5, "ledgerBalance": 10}))
    assert await monnify.balance("NGN") == Done(Money("NGN", 1050))
    assert isinstance(await monnify.balance("USD"), Unknown)
    assert [(call.method, call.target) for call in monnify_server.calls] == [
        ("GET", "/api/v1/banks"),
        ("GET", "/api/v1/disbursements/account/validate?accountNumber=0690000031&bankCode=044"),
        ("GET", "/api/v2/disbursements/wallet-balance?accountNumber=8012345678"),
        ("GET", "/api/v2/disbursements/wallet-balance?accountNumber=8012345678"),
    ]


async def test_send(monnify: Monnify, monnify_server: ScriptedMonnify) -> None:
    monnify_server.answers(200, ok(DOCUMENTED["sent"]))
    assert await monnify.send(TRANSFER) == Done(Sent(None, Money("NGN", 2000)))
    [call] = monnify_server.calls
    assert (call.method, call.target) == ("POST", "/api/v2/disbursements/single")
    assert b'"amount":5000.50,' in call.body
    assert call.json == {
        "amount": 5000.5,
        "reference": "TXN1",
        "narration": "Salary",
        "destinationBankCode": "044",
        "destinationAccountNumber": "0690000031",
        "destinationAccountName": "ADA OBI",
        "currency": "NGN",
        "sourceAccountNumber": "8012345678",
        "async": True,
    }
    assert monnify.transfer_reference("TXN1") == "TXN1"


async def test_a_narration_has_three_to_a_hundred_characters(
    monnify: Monnify, monnify_server: ScriptedMonnify
) -> None:
    monnify_server.answers(200, ok(DOCUMENTED["sent"]))
    for given, sent in (("x" * 101, "x" * 100), ("", "TXN1"), ("TV", "TV TXN1"), ("Bag", "Bag")):
        await monnify.send(msgspec.structs.replace(TRANSFER, narration=given))
        assert monnify_server.calls[-1].json["narration"] == sent


@pytest.mark.parametrize(("kobo", "is_sent"), [(1999, False), (2000, True)])
async def test_an_amount_below_monnifys_minimum_is_not_sent(
    monnify: Monnify, monnify_server: ScriptedMonnify, kobo: int, is_sent: bool
) -> None:
    amount = Money("NGN", kobo)
    for answer in (
        await monnify.send(msgspec.structs.replace(TRANSFER, amount=amount)),
        await monnify.create_checkout(msgspec.structs.replace(CHARGE, amount=amount)),
        await monnify.create_virtual_account(msgspec.structs.replace(CHARGE, amount=amount), None),
    ):
        assert isinstance(answer, Unknown if is_sent else Refused)
    assert bool(monnify_server.calls) is is_sent


async def test_transfer_state(monnify: Monnify, monnify_server: ScriptedMonnify) -> None:
    monnify_server.answers(200, ok(DOCUMENTED["transfer"]))
    delivered = TransferState(
        TransferStatus.DELIVERED,
        TRANSFER.amount,
        Money("NGN", 2000),
        "Transaction successful",
        "MFDS87620261115093249000027JDW8UZ",
    )
    assert await monnify.transfer_state("TXN1") == Done(delivered)
    [call] = monnify_server.calls
    summary = "/api/v2/disbursements/single/summary?reference=TXN1"
    assert (call.method, call.target) == ("GET", summary)
    monnify_server.answers(200, ok(DERIVED["transfer with session"]))
    session_id = "090405261115093249726272971"
    assert await monnify.transfer_state("TXN1") == Done(
        msgspec.structs.replace(delivered, session_id=session_id)
    )
