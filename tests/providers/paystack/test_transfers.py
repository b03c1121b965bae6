"""Paystack's banks, recipients and transfers: our requests, and the parsing of responses."""

from typing import Any

import msgspec
import pytest

from manilla.kit.money import Money
from manilla.providers.kinds.paystack import recipients
from manilla.providers.kinds.paystack.answers import OTP
from manilla.providers.port import (
    Adapter,
    Bank,
    Done,
    RefusalCode,
    Refused,
    ResolvedAccount,
    Sent,
    TransferOrder,
    TransferState,
    TransferStatus,
    Unknown,
)
from tests.providers.paystack.paystack_server import (
    REFERENCE,
    TRX_ID,
    PaystackServer,
    example,
    query,
    refusal,
)

RECIPIENT = "POST /transferrecipient"
TRANSFER = "POST /transfer"
VERIFY = f"GET /transfer/verify/{REFERENCE}"
NUMBER, LATER_NUMBER = "860703114", "451930323"  # These ids are in Paystack's documented responses.


def bank(code: str, **changes: Any) -> dict[str, Any]:
    return {**example("banks")["data"][0], "code": code, "name": f"Bank {code}", **changes}


async def test_banks(paystack: Adapter, api: PaystackServer) -> None:
    api.on("GET /bank", example("banks"))
    assert await paystack.banks() == Done(
        [Bank("044", "Access Bank"), Bank("035A", "ALAT by WEMA")]
    )
    [asked] = api.recorded
    expected = {"country": "nigeria", "currency": "NGN", "perPage": "100", "page": "1"}
    assert query(asked) == expected


async def test_banks_on_several_pages(paystack: Adapter, api: PaystackServer) -> None:
    pages = [[bank(str(number)) for number in range(page, page + 100)] for page in (1000, 1099)]
    last = [bank("2000"), bank("2001", active=False), bank("2002", supports_transfer=False)]
    last.append(bank("2003", is_deleted=True))
    api.on("GET /bank", *(example("banks") | {"data": page} for page in (*pages, last)))
    answer = await paystack.banks()
    assert isinstance(answer, Done)
    codes = [each.code for each in answer.value]
    assert codes == [*(str(number) for number in range(1000, 1199)), "2000"]
    assert [query(each)["page"] for each in api.recorded] == ["1", "2", "3"]


async def test_the_same_page_again_ends_the_list(paystack: Adapter, api: PaystackServer) -> None:
    page = [bank(str(number)) for number in range(1000, 1250)]
    api.on("GET /bank", example("banks") | {"data": page})
    answer = await paystack.banks()
    assert isinstance(answer, Done)
    assert len(answer.value) == 250
    assert len(api.calls) == 2


@pytest.mark.parametrize(
    "data", [{}, {"044": "Access"}, [None], ["044"], [bank("", name="x")], [bank("1", name=None)]]
)
async def test_odd_banks_are_unknown(paystack: Adapter, api: PaystackServer, data: Any) -> None:
    api.on("GET /bank", example("banks") | {"data": data})
    assert isinstance(await paystack.banks(), Unknown)


async def test_name_resolution(paystack: Adapter, api: PaystackServer) -> None:
    api.on("GET /bank/resolve", example("resolve"))
    assert await paystack.resolve("044", "0690000031") == Done(ResolvedAccount("ADA OBI"))
    assert query(api.recorded[0]) == {"account_number": "0690000031", "bank_code": "044"}
    api.on("GET /bank/resolve", example("resolve", account_number="0690000032"))
    assert isinstance(await paystack.resolve("044", "0690000031"), Unknown)
    api.on("GET /bank/resolve", example("resolve", account_name=None))
    assert isinstance(await paystack.resolve("044", "0690000031"), Unknown)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (422, "Could not resolve account name. Check parameters or try again."),
        (400, "Unknown bank code: 999"),
        (400, "Bank code is invalid"),
        (400, "Account number is invalid"),
        (400, "Account number should be numeric"),
    ],
)
async def test_an_account_that_does_not_exist(
    paystack: Adapter, api: PaystackServer, status: int, message: str
) -> None:
    api.on("GET /bank/resolve", refusal(message), status=status)
    expected = Refused(RefusalCode.INVALID_BENEFICIARY, message)
    assert await paystack.resolve("044", "0690000031") == expected


async def test_too_many_lookups_are_unknown(paystack: Adapter, api: PaystackServer) -> None:
    message = "Test mode daily limit of 3 live bank resolves exceeded"
    api.on("GET /bank/resolve", refusal(message), status=429)
    assert isinstance(await paystack.resolve("044", "0690000031"), Unknown)


async def test_balance(paystack: Adapter, api: PaystackServer) -> None:
    api.on("GET /balance", example("balance"))
    assert await paystack.balance("NGN") == Done(Money("NGN", 1717480))
    assert isinstance(await paystack.balance("ZAR"), Unknown)
    for data in ({"currency": "NGN", "balance": 5}, [{"currency": "NGN", "balance": "5.5"}]):
        api.on("GET /balance", example("balance") | {"data": data})
        assert isinstance(await paystack.balance("NGN"), Unknown)


def test_the_reference_can_be_undone(paystack: Adapter) -> None:
    assert paystack.transfer_reference(TRX_ID) == REFERENCE
    assert REFERENCE.upper() == TRX_ID
    assert 16 <= len(REFERENCE) <= 50


async def test_a_transfer(paystack: Adapter, api: PaystackServer, order: TransferOrder) -> None:
    api.on(RECIPIENT, example("recipient"), status=201)
    api.on(TRANSFER, example("transfer"))
    assert await paystack.send(order) == Done(Sent(NUMBER, None))
    recipient, transfer = api.recorded
    assert recipient.json == {
        "type": "nuban",
        "name": "ADA OBI",
        "account_number": "0690000031",
        "bank_code": "044",
        "currency": "NGN",
    }
    assert transfer.json == {
        "source": "balance",
        "amount": 500050,
        "currency": "NGN",
        "recipient": "RCP_m7ljkv8leesep7p",
        "reference": REFERENCE,
        "reason": "Salary",
    }


async def test_a_long_narration_is_cut(
    paystack: Adapter, api: PaystackServer, order: TransferOrder
) -> None:
    api.on(RECIPIENT, example("recipient"), status=201)
    api.on(TRANSFER, example("transfer"))
    await paystack.send(msgspec.structs.replace(order, narration="é" * 300))
    assert api.recorded[1].json["reason"] == "é" * 100


async def test_a_transfer_that_waits_for_a_password(
    paystack: Adapter, api: PaystackServer, order: TransferOrder
) -> None:
    api.on(RECIPIENT, example("recipient"), status=201)
    api.on(TRANSFER, example("transfer", status="otp"))
    assert await paystack.send(order) == Done(Sent(NUMBER, None, needs_action=OTP))
    api.on(VERIFY, example("transfer_status", status="otp"))
    state = await paystack.transfer_state(REFERENCE)
    assert isinstance(state, Done)
    assert (state.value.status, state.value.needs_action) == (TransferStatus.PENDING, OTP)


@pytest.mark.parametrize(
    "changes",
    [
        {"reference": "txn0000000000000002"},
        {"reference": None},
        {"amount": 500051},
        {"amount": "5000.50"},
        {"currency": "GHS"},
    ],
)
async def test_an_odd_answer_to_a_transfer_is_unknown(
    paystack: Adapter, api: PaystackServer, order: TransferOrder, changes: dict[str, Any]
) -> None:
    api.on(RECIPIENT, example("recipient"), status=201)
    api.on(TRANSFER, example("transfer", **changes))
    assert isinstance(await paystack.send(order), Unknown)


async def test_recipients_are_kept(
    paystack: Adapter, api: PaystackServer, order: TransferOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipients, "KEPT_MAX", 1)
    api.on(RECIPIENT, example("recipient"), status=201)
    api.on(TRANSFER, example("transfer"))
    await paystack.send(order)
    await paystack.send(order)
    assert api.calls == [RECIPIENT, TRANSFER, TRANSFER]
    other = {**example("recipient")["data"]["details"], "account_number": "0690000032"}
    api.on(RECIPIENT, example("recipient", details=other), status=201)
    await paystack.send(msgspec.structs.replace(order, account_number="0690000032"))
    assert api.calls[3:] == [RECIPIENT, TRANSFER]
    api.on(RECIPIENT, example("recipient"), status=201)
    await paystack.send(order)
    assert api.calls[5:] == [RECIPIENT, TRANSFER]


@pytest.mark.parametrize(
    "details",
    [
        {"account_number": "0690000032", "bank_code": "044"},
        {"account_number": "0690000031", "bank_code": "058"},
        {"account_number": "0690000031"},
        None,
    ],
)
async def test_a_recipient_with_another_account_gets_nothing(
    paystack: Adapter, api: PaystackServer, order: TransferOrder, details: Any
) -> None:
    api.on(RECIPIENT, example("recipient", details=details), status=201)
    assert isinstance(await paystack.send(order), Unknown)
    assert api.calls == [RECIPIENT]


@pytest.mark.parametrize(
    ("status", "message", "code"),
    [
        (400, "Unknown bank code", RefusalCode.INVALID_BENEFICIARY),
        (400, "Bank is invalid", RefusalCode.INVALID_BENEFICIARY),
        (422, "Cannot resolve account", RefusalCode.INVALID_BENEFICIARY),
    ],
)
async def test_a_rejected_recipient_rejects_the_transfer(
    paystack: Adapter,
    api: PaystackServer,
    order: TransferOrder,
    status: int,
    message: str,
    code: RefusalCode,
) -> None:
    api.on(RECIPIENT, refusal(message), status=status)
    assert await paystack.send(order) == Refused(code, message)
    assert api.calls == [RECIPIENT]


@pytest.mark.parametrize("status", [401, 429, 500, 502])
async def test_without_a_recipient_nothing_is_sent(
    paystack: Adapter, api: PaystackServer, order: TransferOrder, status: int
) -> None:
    api.on(RECIPIENT, refusal("Invalid key"), status=status)
    assert isinstance(await paystack.send(order), Unknown)
    assert api.calls == [RECIPIENT]


async def test_a_deleted_recipient_is_created_again(
    paystack: Adapter, api: PaystackServer, order: TransferOrder
) -> None:
    api.on(RECIPIENT, example("recipient"), status=201)
    api.on(TRANSFER, example("transfer"), (400, example("invalid_recipient")), example("transfer"))
    await paystack.send(order)
    assert await paystack.send(order) == Done(Sent(NUMBER, None))
    assert api.calls == [RECIPIENT, TRANSFER, TRANSFER, RECIPIENT, TRANSFER]


async def test_a_new_recipient_that_is_invalid_is_a_refusal(
    paystack: Adapter, api: PaystackServer, order: TransferOrder
) -> None:
    api.on(RECIPIENT, example("recipient"), status=201)
    api.on(TRANSFER, example("invalid_recipient"), status=400)
    message = "Recipient specified is invalid"
    expected = Refused(RefusalCode.GATEWAY_PAYOUT_FAILED, message)
    assert await paystack.send(order) == expected
    assert await paystack.send(order) == expected
    assert api.calls == [RECIPIENT, TRANSFER] * 2


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (
            "Your balance is not enough to fulfil this request",
            RefusalCode.PROVIDER_INSUFFICIENT_BALANCE,
        ),
        (
            "Your balance is not enough to fulfill this request",
            RefusalCode.PROVIDER_INSUFFICIENT_BALANCE,
        ),
        (
            "You cannot initiate third party payouts as a starter business",
            RefusalCode.PAYOUT_FAILED,
        ),
        ("You cannot initiate third party payouts at this time", RefusalCode.PAYOUT_FAILED),
        ("Your IP address is not allowed to make this call", RefusalCode.PAYOUT_FAILED),
        ("Integration has been deactivated", RefusalCode.PAYOUT_FAILED),
        ("Invalid Amount Sent", RefusalCode.GATEWAY_PAYOUT_FAILED),
        ("Account closed", RefusalCode.INVALID_BENEFICIARY),
        (
            "Account has been deactivated due to fraud related issues",
            RefusalCode.INVALID_BENEFICIARY,
        ),
        (
            "Sorry, we can't make the transfer to this recipient at the moment",
            RefusalCode.GATEWAY_PAYOUT_FAILED,
        ),
    ],
)
async def test_a_rejected_transfer(
    paystack: Adapter, api: PaystackServer, order: TransferOrder, message: str, code: RefusalCode
) -> None:
    api.on(RECIPIENT, example("recipient"), status=201)
    api.on(TRANSFER, refusal(message), status=400)
    assert await paystack.send(order) == Refused(code, message)
    assert api.calls == [RECIPIENT, TRANSFER]  # the transfer was sent once


@pytest.mark.parametrize(
    ("document", "answer"),
    [
        (refusal("name is not allowed", type="validation_error", code="invalid_params"), Refused),
        (refusal("name is not allowed", type="api_error", code="unknown"), Unknown),
        (refusal("name is not allowed"), Unknown),
        (refusal("System Malfunction", type="processor_error"), Unknown),
        (refusal("System Malfunction"), Unknown),
        (refusal("Account closed", type="processor_error"), Unknown),
        (refusal("Pending", type="validation_error", code="duplicate_transfer"), Unknown),
        (refusal("No response about the credit to this account number"), Unknown),
        (refusal("The IP address of the bank did not respond"), Unknown),
        (refusal(""), Unknown),
        # Paystack's list of errors has this text for a reference that was used before.
        (
            refusal(
                "Please provide a unique reference. Reference already exists on a transfer",
                type="validation_error",
                code="duplicate_transfer_reference",
            ),
            Unknown,
        ),
    ],
)
async def test_only_an_invalid_field_or_a_documented_text_rejects_a_transfer(
    paystack: Adapter, api: PaystackServer, order: TransferOrder, document: Any, answer: type
) -> None:
    api.on(RECIPIENT, example("recipient"), status=201)
    for status in (400, 403, 422):
        api.on(TRANSFER, document, status=status)
        assert isinstance(await paystack.send(order), answer)


@pytest.mark.parametrize(
    ("status", "document"),
    [
        (
            400,
            refusal("Please provide a unique reference. Reference already exists on a transfer"),
        ),
        (400, refusal("Duplicate reference")),
        (400, refusal("This account number's reference has already been used")),
        (400, refusal("Your reference contains illegal special characters")),
        (401, refusal("Invalid key")),
        (408, refusal("Timeout")),
        (409, refusal("Your balance is not enough to fulfil this request")),
        (429, refusal("Please wait a few minutes and try again.")),
        (500, refusal("Your balance is not enough to fulfil this request")),
        (504, refusal("Gateway timeout")),
        (200, refusal("Your balance is not enough to fulfil this request")),
        (403, {"error": "blocked"}),
        (400, {"message": "Bad request"}),
        (400, {"status": "failed", "message": "Bad request"}),
    ],
)
async def test_a_transfer_that_may_have_been_sent_is_unknown(
    paystack: Adapter, api: PaystackServer, order: TransferOrder, status: int, document: Any
) -> None:
    api.on(RECIPIENT, example("recipient"), status=201)
    api.on(TRANSFER, document, status=status)
    assert isinstance(await paystack.send(order), Unknown)
    assert api.calls == [RECIPIENT, TRANSFER]


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("success", TransferStatus.DELIVERED),
        ("pending", TransferStatus.PENDING),
        ("received", TransferStatus.PENDING),
        ("failed", TransferStatus.FAILED),
        ("abandoned", TransferStatus.FAILED),
        ("blocked", TransferStatus.FAILED),
        ("rejected", TransferStatus.FAILED),
        ("reversed", TransferStatus.RETURNED),
    ],
)
async def test_transfer_state(
    paystack: Adapter, api: PaystackServer, word: str, status: TransferStatus
) -> None:
    api.on(VERIFY, example("transfer_status", status=word, gateway_response="Account closed"))
    assert await paystack.transfer_state(REFERENCE) == Done(
        TransferState(
            status,
            amount=Money("NGN", 500050),
            fee=Money("NGN", 2688),
            message="Account closed",
            provider_reference=LATER_NUMBER,
            session_id="110006240201093421000000000001",
        )
    )


@pytest.mark.parametrize("given", [None, {"provider": None, "id": None}, [], "1"])
async def test_a_transfer_without_a_session(
    paystack: Adapter, api: PaystackServer, given: Any
) -> None:
    changes = {"session": given, "fee_charged": "free", "transfer_code": None, "id": None}
    api.on(VERIFY, example("transfer_status", reference=TRX_ID, amount="500050", **changes))
    assert await paystack.transfer_state(REFERENCE) == Done(
        TransferState(TransferStatus.DELIVERED, amount=Money("NGN", 500050))
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"reference": "txn0000000000000002"},
        {"reference": None},
        {"status": "SUCCESS"},
        {"status": "processing"},
        {"status": None},
        {"amount": None},
        {"amount": "5000.50"},
        {"currency": "?"},
        {"currency": None},
    ],
)
async def test_an_odd_transfer_is_unknown(
    paystack: Adapter, api: PaystackServer, changes: dict[str, Any]
) -> None:
    api.on(VERIFY, example("transfer_status", **changes))
    assert isinstance(await paystack.transfer_state(REFERENCE), Unknown)


async def test_a_transfer_that_paystack_does_not_know(
    paystack: Adapter, api: PaystackServer
) -> None:
    api.on(VERIFY, example("transfer_not_found"), status=404)
    expected = Done(TransferState(TransferStatus.NOT_FOUND))
    assert await paystack.transfer_state(REFERENCE) == expected


@pytest.mark.parametrize(
    ("status", "document"),
    [
        (404, {"message": "Not Found"}),
        (404, {"status": False, "message": "Endpoint not found"}),
        (404, {"status": False}),
        (400, {"status": False, "message": "Transfer not found"}),
        (401, {"status": False, "message": "Transfer not found"}),
        (200, {"status": False, "message": "Transfer not found"}),
        (200, {"status": True, "message": "Transfer retrieved", "data": None}),
        (200, {"status": True, "message": "Transfer retrieved", "data": []}),
    ],
)
async def test_other_errors_do_not_say_that_a_transfer_is_missing(
    paystack: Adapter, api: PaystackServer, status: int, document: Any
) -> None:
    api.on(VERIFY, document, status=status)
    assert isinstance(await paystack.transfer_state(REFERENCE), Unknown)
