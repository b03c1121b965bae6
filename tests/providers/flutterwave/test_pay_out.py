"""Flutterwave transfers and lookups: our exact requests, and the parsing of responses."""

from typing import Any

import msgspec
import pytest

from manilla.kit.money import Money
from manilla.ledger import trx_ids
from manilla.providers.kinds.flutterwave import KIND
from manilla.providers.kinds.flutterwave.answers import APPROVAL, SEVERAL
from manilla.providers.port import (
    Adapter,
    Bank,
    Done,
    RefusalCode,
    Refused,
    ResolvedAccount,
    Sent,
    TransferState,
    TransferStatus,
    Unknown,
)
from tests.providers.flutterwave import schemas
from tests.providers.flutterwave.conftest import Build
from tests.providers.flutterwave.fixtures import DERIVED, DOCUMENTED, TRANSFER, error, success
from tests.providers.samples import TRANSFER as ORDER
from tests.providers.scripted import Scripted

AMOUNT, FEE = Money("NGN", 500050), Money("NGN", 1075)
WAITING = {"requires_approval": 1, "is_approved": 0}


class TestLookups:
    async def test_requests(self, flutterwave: Adapter, server: Scripted) -> None:
        server.answers(200, DOCUMENTED["banks"])
        assert await flutterwave.banks() == Done(
            [Bank("044", "Access Bank"), Bank("090110", "VFD")]
        )
        server.answers(200, DOCUMENTED["account"])
        assert await flutterwave.resolve("044", "0690000031") == Done(ResolvedAccount("ADA OBI"))
        server.answers(200, DOCUMENTED["balance"])
        assert await flutterwave.balance("NGN") == Done(Money("NGN", 1250))
        assert [(each.method, each.target) for each in server.recorded] == [
            ("GET", "/v3/banks/NG"),
            ("POST", "/v3/accounts/resolve"),
            ("GET", "/v3/balances/NGN"),
        ]
        assert server.recorded[1].json == {"account_number": "0690000031", "account_bank": "044"}
        schemas.check(server.recorded[1])

    async def test_a_name_of_another_account(self, flutterwave: Adapter, server: Scripted) -> None:
        server.answers(200, DOCUMENTED["account"])
        assert isinstance(await flutterwave.resolve("044", "0690000032"), Unknown)

    @pytest.mark.parametrize(
        ("message", "code"),
        [
            (
                "Sorry, recipient account could not be validated. Please try again",
                RefusalCode.INVALID_BENEFICIARY,
            ),
            ("Invalid bank code", RefusalCode.INVALID_BENEFICIARY),
            ("account_number must be 10 digits", RefusalCode.INVALID_BENEFICIARY),
            ("Please enable IP Whitelisting to access this service", RefusalCode.PAYOUT_FAILED),
        ],
    )
    async def test_an_unresolved_account(
        self, flutterwave: Adapter, server: Scripted, message: str, code: RefusalCode
    ) -> None:
        server.answers(400, error(message))
        assert await flutterwave.resolve("044", "0690000031") == Refused(code, message)

    async def test_balances(self, flutterwave: Adapter, server: Scripted) -> None:
        server.answers(200, DERIVED["balances"])
        assert await flutterwave.balance("NGN") == Done(Money("NGN", 1250))
        for balance in (
            {"currency": "USD", "available_balance": 12.5},
            {"available_balance": 12.5},
            {"currency": "NGN"},
            {"currency": "NGN", "available_balance": "many"},
            {"currency": "NGN", "available_balance": "NaN"},
            {"currency": "NGN", "available_balance": 10**40},
            [{"currency": "USD", "available_balance": 12.5}],
            [],
        ):
            server.answers(200, success(balance))
            assert isinstance(await flutterwave.balance("NGN"), Unknown), balance


class TestSend:
    async def test_request(self, flutterwave: Adapter, server: Scripted) -> None:
        server.answers(200, DOCUMENTED["transfer"])
        assert await flutterwave.send(ORDER) == Done(Sent("190626", FEE))
        [sent] = server.recorded
        assert (sent.method, sent.target) == ("POST", "/v3/transfers")
        assert sent.headers["authorization"] == "Bearer FLWSECK-4711-X"
        assert b'"amount":5000.50' in sent.body
        assert sent.json == {
            "account_bank": "044",
            "account_number": "0690000031",
            "amount": 5000.5,
            "currency": "NGN",
            "debit_currency": "NGN",
            "reference": "TXN1",
            "narration": "Salary",
            "beneficiary_name": "ADA OBI",
        }
        schemas.check(sent)

    async def test_limits(self, flutterwave: Adapter, server: Scripted) -> None:
        order = msgspec.structs.replace(
            ORDER, reference=trx_ids.new(1), narration="n" * 300, account_name="a" * 300
        )
        await flutterwave.send(order)
        await flutterwave.send(msgspec.structs.replace(order, account_name=""))
        for sent in server.recorded:
            schemas.check(sent)
        assert "beneficiary_name" not in server.recorded[1].json

    @pytest.mark.parametrize("yes", [1, "1", True])
    async def test_a_transfer_that_waits_for_approval(
        self, flutterwave: Adapter, server: Scripted, yes: Any
    ) -> None:
        for change in ({}, {"is_approved": 0}, {"is_approved": None}):
            waiting = {**TRANSFER, "requires_approval": yes, "is_approved": 0, **change}
            server.answers(200, success(waiting))
            assert await flutterwave.send(ORDER) == Done(Sent("190626", FEE, needs_action=APPROVAL))
        server.answers(200, success({**TRANSFER, "requires_approval": yes, "is_approved": yes}))
        assert await flutterwave.send(ORDER) == Done(Sent("190626", FEE))

    @pytest.mark.parametrize(
        ("change", "fee"),
        [({"fee": 26.875}, 2688), ({"fee": "53.75"}, 5375), ({"fee": None}, None)],
    )
    async def test_fees(
        self, flutterwave: Adapter, server: Scripted, change: Any, fee: int | None
    ) -> None:
        server.answers(200, success({**TRANSFER, **change}))
        expected = None if fee is None else Money("NGN", fee)
        assert await flutterwave.send(ORDER) == Done(Sent("190626", expected))

    @pytest.mark.parametrize(
        "change",
        [
            {"reference": "TXN2"},
            {"reference": None},
            {"reference": "TXN1_PMCK"},
            {"amount": 5000.51},
            {"amount": "five"},
            {"currency": "USD"},
            {"id": None},
        ],
    )
    async def test_odd_answers(self, flutterwave: Adapter, server: Scripted, change: Any) -> None:
        server.answers(200, success({**TRANSFER, **change}))
        assert isinstance(await flutterwave.send(ORDER), Unknown)

    @pytest.mark.parametrize(
        ("message", "code"),
        [
            ("Insufficient wallet balance", RefusalCode.PROVIDER_INSUFFICIENT_BALANCE),
            ("Please enable IP Whitelisting to access this service", RefusalCode.PAYOUT_FAILED),
            ("Sorry, recipient account could not be validated", RefusalCode.INVALID_BENEFICIARY),
            ("Account resolve failed", RefusalCode.INVALID_BENEFICIARY),
            ("Invalid bank code", RefusalCode.INVALID_BENEFICIARY),
            ("amount is required", RefusalCode.GATEWAY_PAYOUT_FAILED),
        ],
    )
    async def test_refusals(
        self, flutterwave: Adapter, server: Scripted, message: str, code: RefusalCode
    ) -> None:
        server.answers(400, error(message))
        assert await flutterwave.send(ORDER) == Refused(code, message)

    @pytest.mark.parametrize(
        "message",
        [
            "DISBURSE FAILED: Insufficient funds/ wallet balance",
            "Transfers are disabled on this account",
            "This request cannot be processed, please contact support",
            "Could not disburse: insufficient funds",
            "Approval is required to complete this transfer",
            "An OTP is required",
            "Invalid bank response",
            "The transaction could not be validated",
            "An error occurred",
            "",
        ],
    )
    async def test_an_error_after_which_a_transfer_may_exist(
        self, flutterwave: Adapter, server: Scripted, message: str
    ) -> None:
        for status in (400, 402, 403, 422):
            server.answers(status, error(message))
            assert isinstance(await flutterwave.send(ORDER), Unknown)

    @pytest.mark.parametrize(
        "message",
        [
            "Duplicate reference",
            "Transfer with this reference exists",
            "reference TXN1 has been used",
            "A transfer like this was already made",
            "Please use a unique Reference",
            "DUPLICATE TRANSFER",
        ],
    )
    async def test_duplicates_in_any_words(
        self, flutterwave: Adapter, server: Scripted, message: str
    ) -> None:
        for status in (400, 403, 409, 422):
            server.answers(status, error(message))
            assert isinstance(await flutterwave.send(ORDER), Unknown)

    async def test_a_rejection_with_a_transfer(
        self, flutterwave: Adapter, server: Scripted
    ) -> None:
        server.answers(400, error("Insufficient funds", {"id": 190626, "status": "FAILED"}))
        assert isinstance(await flutterwave.send(ORDER), Unknown)

    async def test_wrong_keys_and_failing_servers(
        self, flutterwave: Adapter, server: Scripted
    ) -> None:
        server.answers(401, error("Invalid authorization key"))
        answer = await flutterwave.send(ORDER)
        assert isinstance(answer, Unknown)
        assert not answer.can_pass
        for status in (500, 502, 503, 504):
            server.answers(status, error("Insufficient wallet balance"))
            assert isinstance(await flutterwave.send(ORDER), Unknown)

    async def test_our_keys_are_hidden(self, flutterwave: Adapter, server: Scripted) -> None:
        server.answers(400, error("With FLWSECK-4711-X, narration is required"))
        answer = await flutterwave.send(ORDER)
        assert isinstance(answer, Refused)
        assert "4711" not in answer.guidance

    def test_nothing_is_ever_sent_again(self) -> None:
        capabilities = KIND.capabilities
        assert not capabilities.resend_transfer
        assert not capabilities.resend_refund


class TestTransferState:
    @pytest.mark.parametrize(
        ("word", "status"),
        [
            ("NEW", TransferStatus.PENDING),
            ("PENDING", TransferStatus.PENDING),
            ("SUCCESSFUL", TransferStatus.DELIVERED),
            ("FAILED", TransferStatus.FAILED),
            ("REVERSED", TransferStatus.RETURNED),
        ],
    )
    async def test_words(
        self, flutterwave: Adapter, server: Scripted, word: str, status: TransferStatus
    ) -> None:
        transfer = {**TRANSFER, "status": word, "complete_message": "DISBURSE FAILED: x"}
        expected = TransferState(status, AMOUNT, FEE, "DISBURSE FAILED: x", "190626")
        # In the second response, `data` is an object instead of a list.
        for listed in ([transfer], transfer):
            server.answers(200, success(listed, meta={"page_info": {"total": 1}}))
            assert await flutterwave.transfer_state("TXN1") == Done(expected)
        sent = server.recorded[0]
        assert (sent.method, sent.target) == ("GET", "/v3/transfers?reference=TXN1")

    async def test_documented(self, flutterwave: Adapter, server: Scripted) -> None:
        server.answers(200, DOCUMENTED["transfers"])
        expected = TransferState(TransferStatus.PENDING, AMOUNT, FEE, "", "190626")
        assert await flutterwave.transfer_state("TXN1") == Done(expected)

    async def test_amounts_as_text(self, flutterwave: Adapter, server: Scripted) -> None:
        server.answers(200, success([{**TRANSFER, "amount": "5000.50", "fee": "26.875"}]))
        answer = await flutterwave.transfer_state("TXN1")
        assert isinstance(answer, Done)
        assert (answer.value.amount, answer.value.fee) == (AMOUNT, Money("NGN", 2688))

    async def test_a_transfer_that_waits_for_approval(
        self, flutterwave: Adapter, server: Scripted
    ) -> None:
        server.answers(200, success([{**TRANSFER, **WAITING}]))
        answer = await flutterwave.transfer_state("TXN1")
        assert isinstance(answer, Done)
        assert (answer.value.status, answer.value.needs_action) == (
            TransferStatus.PENDING,
            APPROVAL,
        )
        server.answers(200, success([{**TRANSFER, **WAITING, "status": "FAILED"}]))
        failed = await flutterwave.transfer_state("TXN1")
        assert isinstance(failed, Done)
        assert failed.value.needs_action == ""

    async def test_an_empty_list_is_not_found(self, flutterwave: Adapter, server: Scripted) -> None:
        server.answers(200, DERIVED["no_transfers"])
        assert await flutterwave.transfer_state("TXN1") == Done(
            TransferState(TransferStatus.NOT_FOUND)
        )
        for status in (400, 404):
            server.answers(status, error("Transfer not found"))
            assert isinstance(await flutterwave.transfer_state("TXN1"), Unknown)

    async def test_a_list_with_others(self, flutterwave: Adapter, server: Scripted) -> None:
        others = [{**TRANSFER, "reference": each, "status": "FAILED"} for each in ("TXN", "TXN11")]
        # Flutterwave has ignored the reference filter, so our transfer may be on page 2.
        server.answers(200, success(others))
        assert isinstance(await flutterwave.transfer_state("TXN1"), Unknown)
        server.answers(200, success([*others, {**TRANSFER, "status": "SUCCESSFUL"}]))
        answer = await flutterwave.transfer_state("TXN1")
        assert isinstance(answer, Done)
        assert answer.value.status is TransferStatus.DELIVERED

    async def test_two_transfers_with_our_reference(
        self, flutterwave: Adapter, server: Scripted
    ) -> None:
        for words in (("FAILED", "SUCCESSFUL"), ("SUCCESSFUL", "SUCCESSFUL"), ("FAILED", "FAILED")):
            server.answers(200, success([{**TRANSFER, "status": word} for word in words]))
            assert await flutterwave.transfer_state("TXN1") == Done(
                TransferState(TransferStatus.PENDING, needs_action=SEVERAL)
            )

    @pytest.mark.parametrize(
        "change",
        [
            {"reference": None},
            {"reference": ""},
            {"status": "successful"},
            {"status": "CANCELLED"},
            {"status": None},
            {"currency": None},
            {"currency": "N"},
            {"amount": None},
            {"amount": 5000.505},
            {"amount": "5,000.50"},
            {"id": None},
        ],
    )
    async def test_odd_answers(self, flutterwave: Adapter, server: Scripted, change: Any) -> None:
        server.answers(200, success([{**TRANSFER, **change}]))
        assert isinstance(await flutterwave.transfer_state("TXN1"), Unknown)

    async def test_an_unreadable_fee_does_not_matter(
        self, flutterwave: Adapter, server: Scripted
    ) -> None:
        server.answers(200, success([{**TRANSFER, "status": "SUCCESSFUL", "fee": "N/A"}]))
        answer = await flutterwave.transfer_state("TXN1")
        assert isinstance(answer, Done)
        assert answer.value.fee is None


class TestReference:
    @pytest.mark.parametrize("suffix", ["_PMCK", "PMCK", "_PMCK_ST_F", "_PMCKDU_1"])
    def test_a_test_suffix(self, build: Build, suffix: str) -> None:
        trx_id = trx_ids.new(1)
        sandbox = build(sandbox="true", test_reference_suffix=suffix)
        reference = sandbox.transfer_reference(trx_id)
        assert reference == f"{trx_id}_{suffix.removeprefix('_')}"
        assert len(reference) <= 100

    def test_a_test_key_is_the_sandbox(self, build: Build) -> None:
        test = build(secret_key="FLWSECK_TEST-4711-X", test_reference_suffix="_PMCK")
        assert test.transfer_reference("TXN1") == "TXN1_PMCK"

    def test_real_money_has_no_suffix(self, build: Build) -> None:
        assert build(test_reference_suffix="_PMCK").transfer_reference("TXN1") == "TXN1"
        assert build(sandbox="true").transfer_reference("TXN1") == "TXN1"
