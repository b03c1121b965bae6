"""Monnify's statuses, rejections and unexpected responses. Only a clear status is conclusive."""

from typing import Any

import pytest

from manilla.kit.money import Money
from manilla.providers.kinds.monnify.adapter import Monnify
from manilla.providers.kinds.monnify.answers import OTP, OTP_NOT_SENT
from manilla.providers.port import (
    ChargeState,
    Done,
    RefundState,
    RefusalCode,
    Refused,
    ReportedChargeStatus,
    ReportedRefundStatus,
    Sent,
    TransferState,
    TransferStatus,
    Unknown,
)
from tests.providers.monnify.conftest import ScriptedMonnify, reset
from tests.providers.monnify.samples import DERIVED, DOCUMENTED, OWN, ok, refusal
from tests.providers.samples import CHARGE, REFUND, TRANSFER
from tests.providers.scripted import answering
from tests.providers.test_hostile_responses import (
    CALLS,
    EMPTY_DATA,
    ODD_STATUSES,
    UNREADABLE,
    Ask,
)
from tests.providers.unknown_values import unknown_values

QUERY = "/api/v2/merchant/transactions/query"
EVERY_CALL: dict[str, Ask] = {**CALLS, "refund_state": lambda each: each.refund_state("TXN9")}
ANSWERS: dict[str, dict[str, Any]] = {
    "transfer_state": DOCUMENTED["transfer"],
    "send": DOCUMENTED["sent"],
    "charge_state": DOCUMENTED["charge"],
    "refund_state": DERIVED["paid refund"],
    "refund": DERIVED["paid refund"],
}
DUPLICATES = (
    "Duplicate transaction reference",
    "Duplicate payment reference",
    "Transaction reference has been used",
    "Reference not unique",
    "A transfer with this reference exists",
    "Refund already processed",
    "DUPLICATE REQUEST",
)


@pytest.mark.parametrize(
    ("word", "status", "needs_action"),
    [
        ("SUCCESS", TransferStatus.DELIVERED, ""),
        ("PENDING", TransferStatus.PENDING, ""),
        ("COMPLETED", TransferStatus.DELIVERED, ""),
        ("AWAITING_PROCESSING", TransferStatus.PENDING, ""),
        ("IN_PROGRESS", TransferStatus.PENDING, ""),
        ("PENDING_BATCH_AUTHORIZATION", TransferStatus.PENDING, OTP),
        ("PENDING_AUTHORIZATION", TransferStatus.PENDING, OTP),
        ("OTP_EMAIL_DISPATCH_FAILED", TransferStatus.PENDING, OTP_NOT_SENT),
        ("FAILED", TransferStatus.FAILED, ""),
        ("EXPIRED", TransferStatus.FAILED, ""),
        ("REVERSED", TransferStatus.RETURNED, ""),
    ],
)
async def test_transfer_states(
    monnify: Monnify,
    monnify_server: ScriptedMonnify,
    word: str,
    status: TransferStatus,
    needs_action: str,
) -> None:
    monnify_server.answers(200, ok({**DOCUMENTED["transfer"], "status": word}))
    answer = await monnify.transfer_state("TXN1")
    assert isinstance(answer, Done)
    assert (answer.value.status, answer.value.needs_action) == (status, needs_action)
    # Only the status query settles the transfer, whatever status the first response has.
    monnify_server.answers(200, ok({**DOCUMENTED["sent"], "status": word}))
    assert await monnify.send(TRANSFER) == Done(
        Sent(None, Money("NGN", 2000), needs_action=needs_action)
    )


async def test_a_status_in_another_currency_is_reported_for_review(
    monnify: Monnify, monnify_server: ScriptedMonnify
) -> None:
    monnify_server.answers(200, ok({**DOCUMENTED["transfer"], "currency": "USD"}))
    transfer = await monnify.transfer_state("TXN1")
    assert isinstance(transfer, Done)
    assert transfer.value.amount == Money("USD", TRANSFER.amount.minor)
    monnify_server.answers(200, ok({**DOCUMENTED["charge"], "currency": "USD"}))
    charge = await monnify.charge_state("TXN0-1")
    assert isinstance(charge, Done)
    assert charge.value.status is ReportedChargeStatus.PAID
    assert charge.value.paid is not None
    assert charge.value.paid.currency == "USD"


async def test_a_transfers_amounts_may_be_text_and_its_currency_missing(
    monnify: Monnify, monnify_server: ScriptedMonnify
) -> None:
    data = {"amount": "5000.50", "reference": "TXN1", "status": "SUCCESS", "fee": "20.00"}
    monnify_server.answers(200, ok(data))
    assert await monnify.transfer_state("TXN1") == Done(
        TransferState(TransferStatus.DELIVERED, TRANSFER.amount, Money("NGN", 2000))
    )


@pytest.mark.parametrize(
    ("word", "paid", "status", "amount"),
    [
        ("PAID", "1015.50", ReportedChargeStatus.PAID, 101550),
        ("OVERPAID", "2000.00", ReportedChargeStatus.PAID, 200000),
        ("PARTIALLY_PAID", 40, ReportedChargeStatus.PAID, 4000),
        ("PENDING", "0.00", ReportedChargeStatus.PENDING, None),
        ("FAILED", "0.00", ReportedChargeStatus.FAILED, None),
        ("CANCELLED", "0.00", ReportedChargeStatus.FAILED, None),
        ("EXPIRED", "0.00", ReportedChargeStatus.EXPIRED, None),
    ],
)
async def test_charge_states(
    monnify: Monnify,
    monnify_server: ScriptedMonnify,
    word: str,
    paid: Any,
    status: ReportedChargeStatus,
    amount: int | None,
) -> None:
    data = {**DOCUMENTED["charge"], "paymentStatus": word, "amountPaid": paid}
    monnify_server.answers(200, ok({**data, "settlementAmount": None}))
    expected = None if amount is None else Money("NGN", amount)
    assert await monnify.charge_state("TXN0-1") == Done(
        ChargeState(status, expected, provider_reference=OWN)
    )


async def test_a_settlement_above_the_payment_gives_no_fee(
    monnify: Monnify, monnify_server: ScriptedMonnify
) -> None:
    monnify_server.answers(200, ok({**DOCUMENTED["charge"], "settlementAmount": "1015.51"}))
    answer = await monnify.charge_state("TXN0-1")
    assert isinstance(answer, Done)
    assert answer.value.fee is None


@pytest.mark.parametrize(
    ("word", "completed_on", "status"),
    [
        ("COMPLETED", None, ReportedRefundStatus.PENDING),
        ("COMPLETED", "", ReportedRefundStatus.PENDING),
        ("COMPLETED", "15/11/2026 4:24:05 PM", ReportedRefundStatus.PAID),
        ("FAILED", None, ReportedRefundStatus.FAILED),
        ("FAILED", "15/11/2026 4:24:05 PM", ReportedRefundStatus.FAILED),
        ("PENDING", None, ReportedRefundStatus.PENDING),
        ("PENDING", "15/11/2026 4:24:05 PM", ReportedRefundStatus.PENDING),
        ("SOMETHING_NEW", None, ReportedRefundStatus.PENDING),
    ],
)
async def test_refund_states(
    monnify: Monnify,
    monnify_server: ScriptedMonnify,
    word: str,
    completed_on: str | None,
    status: ReportedRefundStatus,
) -> None:
    for comment in (
        "Transaction refund is in progress.",
        "Transaction refund was successful.",
        None,
    ):
        data = {**DOCUMENTED["refund"], "refundStatus": word, "comment": comment}
        monnify_server.answers(200, ok({**data, "completedOn": completed_on}))
        assert await monnify.refund_state("TXN9") == Done(RefundState(status, REFUND.amount))


@pytest.mark.parametrize(("call", "field", "value"), unknown_values("monnify"))
async def test_an_answer_with_an_unexpected_value_is_unknown(
    monnify: Monnify, monnify_server: ScriptedMonnify, call: str, field: str, value: Any
) -> None:
    if call == "refund":  # The adapter queries the charge before it refunds it.
        monnify_server.by_path[QUERY] = answering(200, ok(DOCUMENTED["charge"]))
    monnify_server.answers(200, ok({**ANSWERS[call], field: value}))
    assert isinstance(await EVERY_CALL[call](monnify), Unknown)


@pytest.mark.parametrize(
    "message",
    [
        "Transaction with specified reference does not exist",
        "There's no transaction matching supplied reference. Please confirm supplied reference.",
        "Transaction not found",
        "Could not find disbursement with reference TXN1",
    ],
)
async def test_an_unknown_reference_is_not_found(
    monnify: Monnify, monnify_server: ScriptedMonnify, message: str
) -> None:
    monnify_server.answers(404, refusal(message))
    transfer = await monnify.transfer_state("TXN1")
    assert transfer == Done(TransferState(TransferStatus.NOT_FOUND))
    assert await monnify.refund_state("TXN9") == Done(RefundState(ReportedRefundStatus.NOT_FOUND))
    not_found = Done(ChargeState(ReportedChargeStatus.NOT_FOUND))
    assert await monnify.charge_state("TXN0-1") == not_found
    monnify_server.answers(400, refusal(message))
    assert await monnify.charge_state("TXN0-1") == not_found
    # A transfer reported as NOT_FOUND is sent again or refunded, so the response must be clear.
    assert isinstance(await monnify.transfer_state("TXN1"), Unknown)
    assert isinstance(await monnify.refund_state("TXN9"), Unknown)


@pytest.mark.parametrize(
    "document",
    [
        refusal("Not found"),
        refusal("Merchant does not exist"),
        refusal("Invalid reference"),
        {"responseMessage": "Transaction not found"},
        {"requestSuccessful": False, "responseMessage": "Transaction not found"},
        {"timestamp": "2026-11-15", "status": 404, "error": "Transaction not found"},
        ok(None),
    ],
)
async def test_another_404_is_unknown(
    monnify: Monnify, monnify_server: ScriptedMonnify, document: Any
) -> None:
    monnify_server.answers(404, document)
    for call in ("transfer_state", "charge_state", "refund_state"):
        assert isinstance(await EVERY_CALL[call](monnify), Unknown)


@pytest.mark.parametrize("status", [400, 402, 403, 409, 422])
@pytest.mark.parametrize("message", DUPLICATES)
async def test_a_duplicate_is_unknown_in_any_words(
    monnify: Monnify, monnify_server: ScriptedMonnify, status: int, message: str
) -> None:
    monnify_server.by_path[QUERY] = answering(200, ok(DOCUMENTED["charge"]))
    monnify_server.answers(status, refusal(message))
    for call in ("send", "refund", "create_checkout", "create_virtual_account"):
        assert isinstance(await EVERY_CALL[call](monnify), Unknown), call


# Texts after which Monnify's documentation says to query the status, or to contact its support.
OPEN = (
    "An unexpected error occurred",
    "Transaction timed out while waiting for destination bank",
    "Delayed processing from NIP",
    "Beneficiary bank not available",
    "Invalid session ID",
    "Invalid response code from beneficiary institution",
    "System malfunction by destination institution",
    "System Malfunction - Internal service failure",
    "System Malfunction - Transaction transmission unsuccessful",
    "Unable to complete the transaction at this time",
    "Transaction could not be processed at this time. Please try again",
    "Transaction processing in progress",
    "Processor Malfunction - Transaction transmission failed",
    "Transaction Failed",
)


@pytest.mark.parametrize(
    ("error_code", "message", "code"),
    [
        ("D03", "Invalid account details supplied", RefusalCode.INVALID_BENEFICIARY),
        ("D04", "Insufficient wallet balance", RefusalCode.PROVIDER_INSUFFICIENT_BALANCE),
        ("D04", "Top up and try again", RefusalCode.PROVIDER_INSUFFICIENT_BALANCE),
        ("D06", "Unauthorized request", RefusalCode.PAYOUT_FAILED),
        ("D01", "Invalid destination account number", RefusalCode.INVALID_BENEFICIARY),
        ("D01", "Beneficiary account name mismatch", RefusalCode.INVALID_BENEFICIARY),
        ("D01", "Dormant beneficiary account", RefusalCode.INVALID_BENEFICIARY),
        ("D01", "Unknown destination bank code", RefusalCode.INVALID_BENEFICIARY),
        ("D01", "Account number could not be validated", RefusalCode.INVALID_BENEFICIARY),
        ("D01", "Rejected by destination institution", RefusalCode.INVALID_BENEFICIARY),
        ("D01", "Invalid amount", RefusalCode.GATEWAY_PAYOUT_FAILED),
        (
            *("D01", "Supplied account number does not belong to merchant"),
            RefusalCode.PAYOUT_FAILED,
        ),
    ],
)
async def test_rejections_of_a_transfer(
    monnify: Monnify,
    monnify_server: ScriptedMonnify,
    error_code: str,
    message: str,
    code: RefusalCode,
) -> None:
    without_flag = refusal(message, error_code)
    del without_flag["requestSuccessful"]
    for status in (400, 402, 403, 422):
        for document in (refusal(message, error_code), without_flag):
            monnify_server.answers(status, document)
            assert await monnify.send(TRANSFER) == Refused(code, message)


# Texts that Monnify does not document.
UNDOCUMENTED = ("", "Read timed out", "Could not reach the account number's bank")


@pytest.mark.parametrize("message", [*OPEN, *UNDOCUMENTED])
async def test_a_transfer_may_exist_after_an_error_that_is_not_final(
    monnify: Monnify, monnify_server: ScriptedMonnify, message: str
) -> None:
    for status in (400, 402, 403, 422):
        for error_code in ("99", "D01"):
            monnify_server.answers(status, refusal(message, error_code))
            assert isinstance(await monnify.send(TRANSFER), Unknown), (status, error_code)


@pytest.mark.parametrize("error_code", ["99", 99, "D02", "D05", "D07", "D08", "R3", "M01", "1"])
async def test_a_transfer_may_exist_after_another_error_code(
    monnify: Monnify, monnify_server: ScriptedMonnify, error_code: Any
) -> None:
    for message in ("Insufficient balance", "Invalid account number", ""):
        document = {**refusal(message), "responseCode": error_code}
        monnify_server.answers(400, document)
        assert isinstance(await monnify.send(TRANSFER), Unknown), message


@pytest.mark.parametrize("error_code", ["R2", "R3", "R4", "R5", "R6", "R8", "R12"])
async def test_rejections_of_a_refund(
    monnify: Monnify, monnify_server: ScriptedMonnify, error_code: str
) -> None:
    monnify_server.by_path[QUERY] = answering(200, ok(DOCUMENTED["charge"]))
    for status in (400, 402, 403, 422):
        monnify_server.answers(status, refusal("Refund not permitted", error_code))
        expected = Refused(RefusalCode.PAYMENT_DECLINED, "Refund not permitted")
        assert await monnify.refund(REFUND) == expected


@pytest.mark.parametrize("error_code", ["99", "R1", "R7", "R9", "R10", "R11", "D04", "M01"])
async def test_a_refund_may_exist_after_another_error_code(
    monnify: Monnify, monnify_server: ScriptedMonnify, error_code: str
) -> None:
    monnify_server.by_path[QUERY] = answering(200, ok(DOCUMENTED["charge"]))
    monnify_server.answers(422, refusal("Refunds are off for this merchant", error_code))
    assert isinstance(await monnify.refund(REFUND), Unknown)


@pytest.mark.parametrize("status", [200, 400, 403, 404, 422])
async def test_an_unknown_reference_has_an_error_code_of_its_own(
    monnify: Monnify, monnify_server: ScriptedMonnify, status: int
) -> None:
    monnify_server.answers(status, refusal("Transaction does not exist", "D02"))
    not_found = Done(TransferState(TransferStatus.NOT_FOUND))
    assert await monnify.transfer_state("TXN1") == not_found
    if status != 404:
        assert isinstance(await monnify.refund_state("TXN9"), Unknown)
    monnify_server.answers(status, refusal("No refund was initiated", "R7"))
    assert await monnify.refund_state("TXN9") == Done(RefundState(ReportedRefundStatus.NOT_FOUND))
    assert isinstance(await monnify.transfer_state("TXN1"), Unknown)
    monnify_server.answers(500, refusal("Transaction does not exist", "D02"))
    assert isinstance(await monnify.transfer_state("TXN1"), Unknown)


async def test_only_rejections_in_monnifys_own_envelope_count(
    monnify: Monnify, monnify_server: ScriptedMonnify
) -> None:
    """A rejection with an unexpected HTTP status, such as 500 or 200, is not conclusive."""
    for status in ODD_STATUSES:
        reset(monnify)
        monnify_server.answers(status, refusal("Insufficient balance", "D04"))
        assert isinstance(await monnify.send(TRANSFER), Unknown), status
    monnify_server.answers(200, refusal("Insufficient balance", "D04"))
    assert isinstance(await monnify.send(TRANSFER), Unknown)
    text = "Insufficient balance"
    for odd in (
        {"responseMessage": text},
        {"requestSuccessful": False, "responseMessage": text},
        {"requestSuccessful": False, "responseMessage": text, "responseCode": 4},
        {"requestSuccessful": False, "responseMessage": text, "responseCode": ""},
        {"requestSuccessful": False, "responseMessage": text, "responseCode": "0"},
        {"requestSuccessful": True, "responseMessage": text, "responseCode": "D04"},
        {"requestSuccessful": "false", "responseMessage": text, "responseCode": "D04"},
        {"requestSuccessful": 0, "responseMessage": text, "responseCode": "D04"},
        {"requestSuccessful": False, "responseCode": "D04"},
        {"status": False, "message": text},
        {"error": "invalid_request", "error_description": text},
    ):
        for status in (400, 403):
            monnify_server.answers(status, odd)
            assert isinstance(await monnify.send(TRANSFER), Unknown), odd


async def test_a_success_without_the_flag_is_read_from_its_code(
    monnify: Monnify, monnify_server: ScriptedMonnify
) -> None:
    document = ok(DOCUMENTED["transfer"])
    del document["requestSuccessful"]
    monnify_server.answers(200, document)
    assert isinstance(await monnify.transfer_state("TXN1"), Done)
    monnify_server.answers(200, {**document, "responseCode": 0})
    assert isinstance(await monnify.transfer_state("TXN1"), Done)
    for code in ("99", 99, False, "", None):
        monnify_server.answers(200, {**document, "responseCode": code})
        assert isinstance(await monnify.transfer_state("TXN1"), Unknown)


async def test_rejections_of_a_charge(monnify: Monnify, monnify_server: ScriptedMonnify) -> None:
    monnify_server.answers(422, refusal("Payments are off for this merchant"))
    expected = Refused(RefusalCode.PAYMENT_DECLINED, "Payments are off for this merchant")
    assert await monnify.create_checkout(CHARGE) == expected


@pytest.mark.parametrize(
    ("status", "error_code", "code"),
    [
        (200, "99", RefusalCode.INVALID_BENEFICIARY),
        (400, "99", RefusalCode.INVALID_BENEFICIARY),
        (404, "99", RefusalCode.INVALID_BENEFICIARY),
        (403, "99", RefusalCode.PAYOUT_FAILED),
        (400, "D06", RefusalCode.PAYOUT_FAILED),
    ],
)
async def test_rejections_of_an_account_lookup(
    monnify: Monnify,
    monnify_server: ScriptedMonnify,
    status: int,
    error_code: str,
    code: RefusalCode,
) -> None:
    monnify_server.answers(status, refusal("Could not validate the account", error_code))
    resolved = await monnify.resolve("044", "0690000031")
    assert resolved == Refused(code, "Could not validate the account")
    for message in OPEN:
        monnify_server.answers(status, refusal(message, error_code))
        assert isinstance(await monnify.resolve("044", "0690000031"), Unknown), message


async def test_a_name_of_another_account_is_unknown(
    monnify: Monnify, monnify_server: ScriptedMonnify
) -> None:
    monnify_server.answers(200, ok({**DOCUMENTED["resolved"], "accountNumber": "0690000032"}))
    assert isinstance(await monnify.resolve("044", "0690000031"), Unknown)


async def test_keys_in_a_message_are_hidden(
    monnify: Monnify, monnify_server: ScriptedMonnify
) -> None:
    monnify_server.answers(400, refusal("Bad key m-secret of MK_PROD_1", "D06"))
    answer = await monnify.send(TRANSFER)
    assert isinstance(answer, Refused)
    assert "m-secret" not in answer.guidance
    assert "MK_PROD_1" not in answer.guidance


@pytest.mark.parametrize("how", [how for how in UNREADABLE if how not in ("hang", "drip")])
async def test_an_unreadable_answer_is_unknown(
    monnify: Monnify, monnify_server: ScriptedMonnify, how: str
) -> None:
    monnify_server.behaviour = UNREADABLE[how]
    for call in EVERY_CALL:
        reset(monnify)
        assert isinstance(await EVERY_CALL[call](monnify), Unknown), call


@pytest.mark.parametrize("call", EVERY_CALL)
async def test_a_success_without_data_is_unknown(
    monnify: Monnify, monnify_server: ScriptedMonnify, call: str
) -> None:
    for data in EMPTY_DATA:
        if (call, data) != ("banks", []):
            monnify_server.answers(200, ok(data))
            assert isinstance(await EVERY_CALL[call](monnify), Unknown), data
