"""Kora's errors: which errors are conclusive, and which errors require a status query."""

from typing import Any

import pytest

from manilla.providers.kind import Credentials
from manilla.providers.kinds import KINDS
from manilla.providers.port import (
    Adapter,
    ChargeState,
    Done,
    RefundState,
    RefusalCode,
    Refused,
    ReportedChargeStatus,
    ReportedRefundStatus,
    TransferState,
    TransferStatus,
    Unknown,
)
from tests.providers.kora.samples import CHARGE, REFERENCE, REFUND, TRANSFER, TRX_ID, error
from tests.providers.scripted import Scripted

POOR = RefusalCode.PROVIDER_INSUFFICIENT_BALANCE
INVALID = RefusalCode.INVALID_BENEFICIARY
NOT_CREATED = [
    ("Unable to resolve bank account.", INVALID),
    ("Unable to resolve bank account", INVALID),
    ("Invalid account.", INVALID),
    ("Invalid bank provided.", INVALID),
    ("Insufficient funds in disbursement wallet", POOR),
]
DUPLICATES = [
    "Duplicate Transaction Reference. Please use a unique reference",
    "Duplicate payment reference",
    f"Refund already exists with reference {TRX_ID}",
    "duplicate reference",
    "This reference has been used before",
    "Payment reference is not unique",
    "A full reversal has already been processed for this transaction",
]


@pytest.mark.parametrize(("message", "code"), NOT_CREATED)
async def test_a_payout_that_was_not_created_is_rejected(
    kora: Adapter, server: Scripted, message: str, code: RefusalCode
) -> None:
    for status in (400, 402, 403, 409, 422):
        server.answers(status, error(message))
        assert await kora.send(TRANSFER) == Refused(code, message)
    for status in (200, 401, 404, 408, 418, 429, 500, 503):
        server.answers(status, error(message))
        assert isinstance(await kora.send(TRANSFER), Unknown), status


@pytest.mark.parametrize(
    "message",
    [
        "Payouts are not enabled for this business",
        "IP address is not whitelisted",
        "Insufficient funds",
        "Timeout waiting for response from destination",
        "Unable to complete this transaction",
        "",
    ],
)
async def test_an_error_that_kora_does_not_document_as_final_is_unknown(
    kora: Adapter, server: Scripted, message: str
) -> None:
    for status in (400, 402, 403, 409, 422):
        server.answers(status, error(message))
        assert isinstance(await kora.send(TRANSFER), Unknown), status
        assert isinstance(await kora.refund(REFUND), Unknown), status


@pytest.mark.parametrize("data", [None, {}, "", []])
async def test_an_invalid_request_without_fields_is_unknown(
    kora: Adapter, server: Scripted, data: Any
) -> None:
    for message in ("invalid request data", "Unable to complete this transaction"):
        server.answers(400, {"error": "bad_request", **error(message, data)})
        assert isinstance(await kora.send(TRANSFER), Unknown)
        assert isinstance(await kora.refund(REFUND), Unknown)


@pytest.mark.parametrize("message", DUPLICATES)
@pytest.mark.parametrize("status", [400, 403, 409, 422])
async def test_a_duplicate_is_never_a_rejection(
    kora: Adapter, server: Scripted, message: str, status: int
) -> None:
    server.answers(status, error(message))
    for answer in (
        await kora.send(TRANSFER),
        await kora.refund(REFUND),
        await kora.create_checkout(CHARGE),
        await kora.create_virtual_account(CHARGE, None),
    ):
        assert isinstance(answer, Unknown)
        assert message in answer.reason


async def test_invalid_fields_are_named(kora: Adapter, server: Scripted) -> None:
    data = {"customer": {"message": "customer email is required"}, "amount": "too low", "x": 1}
    server.answers(400, {"error": "bad_request", **error("invalid request data", data)})
    guidance = "invalid request data (customer: customer email is required; amount: too low; x)"
    code = RefusalCode.GATEWAY_PAYOUT_FAILED
    assert await kora.send(TRANSFER) == Refused(code, guidance)
    for answer in (await kora.create_checkout(CHARGE), await kora.refund(REFUND)):
        assert answer == Refused(RefusalCode.PAYMENT_DECLINED, guidance)
    server.answers(409, {"error": "bad_request", **error("invalid request data", data)})
    assert isinstance(await kora.send(TRANSFER), Unknown)


async def test_an_invalid_reference_may_be_a_duplicate(kora: Adapter, server: Scripted) -> None:
    long = {f"field{number}": "x" * 100 for number in range(9)}
    server.answers(400, error("invalid request data", {**long, "reference": {"message": "used"}}))
    assert isinstance(await kora.send(TRANSFER), Unknown)
    assert isinstance(await kora.refund(REFUND), Unknown)


@pytest.mark.parametrize(
    "message",
    [
        "Transaction has not yet been settled",
        "Refund can only be requested on a successful transaction",
        "Refund not supported for this currency, please contact support",
        "Refund amount cannot be more than NGN 1015.50",
        "Refund amount cannot be less than NGN 100",
        "Amount can't be more than NGN 2000",
        "Transaction not found",
        "The maximum refundable amount for this transaction is NGN 15.50",
        "Insufficient funds in disbursement wallet",
    ],
)
async def test_documented_refund_errors_reject_it(
    kora: Adapter, server: Scripted, message: str
) -> None:
    server.answers(400, error(message))
    assert await kora.refund(REFUND) == Refused(RefusalCode.PAYMENT_DECLINED, message)
    server.answers(409, error(message))
    assert isinstance(await kora.refund(REFUND), Unknown)


@pytest.mark.parametrize("status", [400, 404])
@pytest.mark.parametrize("end", ["", "."])
async def test_not_found(kora: Adapter, server: Scripted, status: int, end: str) -> None:
    server.answers(status, error(f"Transaction not found{end}"))
    assert await kora.transfer_state(TRX_ID) == Done(TransferState(TransferStatus.NOT_FOUND))
    server.answers(status, error(f"Charge not found{end}"))
    unpaid = ChargeState(ReportedChargeStatus.NOT_FOUND)
    assert await kora.charge_state(REFERENCE) == Done(unpaid)
    server.answers(status, error(f"Refund not found{end}"))
    assert await kora.refund_state(TRX_ID) == Done(RefundState(ReportedRefundStatus.NOT_FOUND))


@pytest.mark.parametrize(
    ("status", "document"),
    [
        (404, error("Not Found")),
        (404, error("Bank not found")),
        (404, error("Merchant not found")),
        (404, {"message": "Transaction not found"}),
        (404, {"status": "error", "message": "Transaction not found"}),
        (404, {"status": 404, "message": "Transaction not found"}),
        (404, {"status": True, "message": "Transaction not found"}),
        (200, error("Transaction not found")),
        (401, error("Transaction not found")),
        (409, error("Transaction not found")),
        (500, error("Transaction not found")),
    ],
)
async def test_only_kora_itself_says_that_a_transaction_does_not_exist(
    kora: Adapter, server: Scripted, status: int, document: Any
) -> None:
    server.answers(status, document)
    assert isinstance(await kora.transfer_state(TRX_ID), Unknown)
    assert isinstance(await kora.charge_state(REFERENCE), Unknown)
    assert isinstance(await kora.refund_state(TRX_ID), Unknown)


async def test_a_wrong_key_is_unknown_and_needs_an_administrator(
    kora: Adapter, server: Scripted
) -> None:
    server.answers(401, error("Invalid authorization key"))
    for answer in (
        await kora.send(TRANSFER),
        await kora.refund(REFUND),
        await kora.transfer_state(TRX_ID),
        await kora.charge_state(REFERENCE),
    ):
        assert answer == Unknown("HTTP 401: Invalid authorization key", can_pass=False)


async def test_a_server_error_is_unknown(kora: Adapter, server: Scripted) -> None:
    server.answers(500, error("Insufficient funds in disbursement wallet"))
    assert await kora.send(TRANSFER) == Unknown("HTTP 500", is_rail_down=True)
    assert await kora.refund(REFUND) == Unknown("HTTP 500", is_rail_down=True)


@pytest.mark.parametrize("status", [400, 404])
async def test_an_account_that_cannot_be_resolved(
    kora: Adapter, server: Scripted, status: int
) -> None:
    for message in ("Unable to resolve bank account.", "Invalid bank provided."):
        server.answers(status, error(message))
        assert await kora.resolve("044", "0690000031") == Refused(INVALID, message)


async def test_a_message_with_our_key_does_not_reveal_it(kora: Adapter, server: Scripted) -> None:
    data = {"key": {"message": "sk_live_k"}}
    server.answers(400, {"error": "bad_request", **error("Bearer sk_live_k", data)})
    answer = await kora.send(TRANSFER)
    assert isinstance(answer, Refused)
    assert "sk_live_k" not in answer.guidance


def test_an_account_with_a_test_key_is_a_test_account() -> None:
    def account(**given: str) -> Credentials:
        return Credentials("kora", KINDS["kora"], given)

    assert account(secret_key="sk_test_1").is_sandbox
    assert account(secret_key="sk_test_1", sandbox="false").is_sandbox
    assert account(secret_key="sk_live_1", sandbox="true").is_sandbox
    assert not account(secret_key="sk_live_1").is_sandbox
