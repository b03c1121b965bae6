"""Flutterwave charges and refunds: our exact requests, and the parsing of responses."""

import asyncio
import json
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
    KnownAs,
    RefundState,
    RefusalCode,
    Refused,
    ReportedChargeStatus,
    ReportedRefundStatus,
    Unknown,
    VirtualAccount,
)
from tests.providers.flutterwave import schemas
from tests.providers.flutterwave.fixtures import (
    AUTHORIZATION,
    CHARGE,
    DERIVED,
    DOCUMENTED,
    REFUND,
    error,
    success,
)
from tests.providers.samples import CHARGE as ORDER
from tests.providers.samples import REFUND as REFUND_ORDER
from tests.providers.scripted import Behaviour, Scripted, answering

AMOUNT = Money("NGN", 101550)
KNOWN = KnownAs(provider_reference="75923", charge_reference="TXN0-1", amount=AMOUNT)
WAYS = ("bank-transfer", "mpgs", "momo", "offline", "preauth")
ENDS = datetime(2100, 1, 1, tzinfo=UTC)


def refunding(server: Scripted, status: int, document: Any, charge: Any = CHARGE) -> Behaviour:
    """Returns the response to the charge's status query, followed by the response to the refund."""

    async def behave(writer: asyncio.StreamWriter) -> None:
        is_refund = server.recorded[-1].method == "POST"
        answer = (status, document) if is_refund else (200, success(charge))
        await answering(*answer)(writer)

    return behave


class TestPaymentLink:
    @pytest.mark.parametrize(
        ("channel", "sent"),
        [
            (Channel.CARD, "card"),
            (Channel.BANK_TRANSFER, "banktransfer"),
            (Channel.USSD, "ussd"),
        ],
    )
    async def test_request_with_the_customers_choice(
        self, flutterwave: Adapter, server: Scripted, channel: Channel, sent: str
    ) -> None:
        server.answers(200, DERIVED["payment_link"])
        await flutterwave.create_checkout(msgspec.structs.replace(ORDER, channel=channel))
        assert server.recorded[-1].json["payment_options"] == sent

    async def test_request(self, flutterwave: Adapter, server: Scripted) -> None:
        server.answers(200, DERIVED["payment_link"])
        link = HostedCheckout("https://checkout.flutterwave.com/v3/hosted/pay/1")
        assert await flutterwave.create_checkout(ORDER) == Done(link)
        [sent] = server.recorded
        assert (sent.method, sent.target) == ("POST", "/v3/payments")
        assert sent.headers["authorization"] == "Bearer FLWSECK-4711-X"
        assert b'"amount":1015.50' in sent.body
        assert sent.json == {
            "tx_ref": "TXN0-1",
            "amount": 1015.5,
            "currency": "NGN",
            "redirect_url": "https://pay.example.com/return",
            "customer": {"email": "ada@example.com", "name": "Ada Obi"},
            "customizations": {"title": "Obi Shoes", "description": "Shoes"},
        }
        schemas.check(sent)

    @pytest.mark.parametrize("link", ["javascript:alert(1)", "//x", "", 5, None])
    async def test_only_web_addresses(
        self, flutterwave: Adapter, server: Scripted, link: Any
    ) -> None:
        server.answers(200, success({"link": link}))
        assert isinstance(await flutterwave.create_checkout(ORDER), Unknown)

    async def test_refusals(self, flutterwave: Adapter, server: Scripted) -> None:
        server.answers(400, error("amount is required"))
        assert await flutterwave.create_checkout(ORDER) == Refused(
            RefusalCode.PAYMENT_DECLINED, "amount is required"
        )
        for message in (
            "Duplicate transaction reference",
            "tx_ref has been used",
            "A transaction with this reference exists",
        ):
            server.answers(400, error(message))
            assert isinstance(await flutterwave.create_checkout(ORDER), Unknown), message


class TestOneTimeAccount:
    async def test_request(self, flutterwave: Adapter, server: Scripted) -> None:
        server.answers(200, DOCUMENTED["one_time_account"])
        account = VirtualAccount("Wema Bank", "0067100155", "Obi Shoes", AMOUNT, ENDS)
        assert await flutterwave.create_virtual_account(ORDER, None) == Done(account)
        [sent] = server.recorded
        assert (sent.method, sent.target) == ("POST", "/v3/charges?type=bank_transfer")
        assert sent.json == {
            "tx_ref": "TXN0-1",
            "amount": 1015.5,
            "currency": "NGN",
            "email": "ada@example.com",
            "is_permanent": False,
            "narration": "Obi Shoes",
            "expires": 1800,
        }
        schemas.check(sent)

    async def test_limits(self, flutterwave: Adapter, server: Scripted) -> None:
        order = msgspec.structs.replace(ORDER, merchant_name="x" * 200)
        await flutterwave.create_virtual_account(order, "22222222222")
        schemas.check(server.recorded[0])
        assert b"22222222222" not in server.recorded[0].body

    @pytest.mark.parametrize(
        ("change", "amount"),
        [
            ({"transfer_amount": 1015.5}, 101550),
            # The virtual account expects the amount plus a fee, so the caller rejects it.
            ({"transfer_amount": "1030.00"}, 103000),
            ({"transfer_account": 67100155}, 101550),
        ],
    )
    async def test_shapes(
        self, flutterwave: Adapter, server: Scripted, change: Any, amount: int
    ) -> None:
        meta = {"authorization": {**AUTHORIZATION, **change}}
        server.answers(200, success(None, meta=meta))
        answer = await flutterwave.create_virtual_account(ORDER, None)
        assert isinstance(answer, Done)
        assert answer.value.amount == Money("NGN", amount)

    @pytest.mark.parametrize(
        ("given", "ends"),
        [
            ("2100-01-01T00:00:00.000Z", ENDS),
            ("2100-01-01 01:00:00", ENDS),  # parsed as Lagos time
            ("2020-03-27 09:53:39", None),
            (DERIVED["mock_account"]["account_expiration"], None),
            ("N/A", None),
            ("", None),
            (None, None),
            (10**30, None),
            ([], None),
        ],
    )
    async def test_expiry(
        self, flutterwave: Adapter, server: Scripted, given: Any, ends: datetime | None
    ) -> None:
        meta = {"authorization": {**AUTHORIZATION, "account_expiration": given}}
        server.answers(200, success(None, meta=meta))
        answer = await flutterwave.create_virtual_account(ORDER, None)
        assert isinstance(answer, Done)
        assert answer.value.expires_at == ends

    async def test_an_end_in_an_hour(self, flutterwave: Adapter, server: Scripted) -> None:
        ends = (datetime.now(UTC) + timedelta(hours=1)).replace(microsecond=0)
        given = int(ends.timestamp()) * 1000
        meta = {"authorization": {**AUTHORIZATION, "account_expiration": given}}
        server.answers(200, success(None, meta=meta))
        answer = await flutterwave.create_virtual_account(ORDER, None)
        assert isinstance(answer, Done)
        assert answer.value.expires_at == ends

    @pytest.mark.parametrize(
        "meta",
        [
            None,
            [],
            {},
            {"authorization": {**AUTHORIZATION, "transfer_amount": None}},
            {"authorization": {**AUTHORIZATION, "transfer_amount": "about 1000"}},
            {"authorization": {**AUTHORIZATION, "transfer_account": None}},
            {"authorization": {**AUTHORIZATION, "transfer_bank": ""}},
            {"authorization": [AUTHORIZATION]},
        ],
    )
    async def test_incomplete_answers(
        self, flutterwave: Adapter, server: Scripted, meta: Any
    ) -> None:
        server.answers(200, success({"id": 1}, meta=meta))
        assert isinstance(await flutterwave.create_virtual_account(ORDER, None), Unknown)


class TestChargeState:
    async def test_documented(self, flutterwave: Adapter, server: Scripted) -> None:
        server.answers(200, DOCUMENTED["charge"])
        assert await flutterwave.charge_state("TXN0-1") == Done(
            ChargeState(
                ReportedChargeStatus.PAID, AMOUNT, Money("NGN", 1422), "Approved", "1163068"
            )
        )
        target = "/v3/transactions/verify_by_reference?tx_ref=TXN0-1"
        assert (server.recorded[0].method, server.recorded[0].target) == ("GET", target)

    @pytest.mark.parametrize(
        ("word", "status"),
        [
            ("pending", ReportedChargeStatus.PENDING),
            ("failed", ReportedChargeStatus.FAILED),
        ],
    )
    async def test_not_paid(
        self, flutterwave: Adapter, server: Scripted, word: str, status: ReportedChargeStatus
    ) -> None:
        server.answers(200, success({**CHARGE, "status": word}))
        answer = await flutterwave.charge_state("TXN0-1")
        assert isinstance(answer, Done)
        assert (answer.value.status, answer.value.paid) == (status, None)

    @pytest.mark.parametrize(
        ("change", "paid", "fee"),
        [
            ({"amount": "1015.50", "charged_amount": "1015.5", "app_fee": "14.22"}, 101550, 1422),
            ({"charged_amount": 1029.72}, 101550, 0),  # the customer pays the fee
            ({"charged_amount": 1042.375, "app_fee": 26.875}, 101550, 0),
            ({"charged_amount": 1000}, 100000, 1422),  # the customer paid too little
            ({"charged_amount": None}, 101550, 1422),
            ({"app_fee": None}, 101550, None),
            ({"app_fee": 26.875}, 101550, 2688),
        ],
    )
    async def test_amounts(
        self, flutterwave: Adapter, server: Scripted, change: Any, paid: int, fee: int | None
    ) -> None:
        server.answers(200, success({**CHARGE, **change}))
        answer = await flutterwave.charge_state("TXN0-1")
        assert isinstance(answer, Done)
        assert answer.value.paid == Money("NGN", paid)
        assert answer.value.fee == (None if fee is None else Money("NGN", fee))

    @pytest.mark.parametrize(
        "change",
        [
            {"tx_ref": "TXN0-2"},
            {"tx_ref": "txn0-1"},
            {"tx_ref": None},
            {"status": "success-pending-validation"},
            {"status": "SUCCESSFUL"},
            {"status": None},
            {"currency": None},
            {"currency": "naira"},
            {"amount": None},
            {"amount": "1,015.50"},
            {"amount": 1015.505},
            {"amount": True},
            {"charged_amount": "N/A"},
            {"id": None},
            {"id": "1/../2"},
        ],
    )
    async def test_odd_answers(self, flutterwave: Adapter, server: Scripted, change: Any) -> None:
        server.answers(200, success({**CHARGE, **change}))
        assert isinstance(await flutterwave.charge_state("TXN0-1"), Unknown)

    async def test_another_currency_is_reported(
        self, flutterwave: Adapter, server: Scripted
    ) -> None:
        server.answers(200, success({**CHARGE, "currency": "USD"}))
        answer = await flutterwave.charge_state("TXN0-1")
        assert isinstance(answer, Done)
        assert answer.value.paid == Money("USD", 101550)

    async def test_not_found(self, flutterwave: Adapter, server: Scripted) -> None:
        for status in (400, 404):
            server.answers(status, DERIVED["unknown_charge"])
            answer = await flutterwave.charge_state("TXN0-1")
            assert answer == Done(ChargeState(ReportedChargeStatus.NOT_FOUND))
        for status, message in ((404, "Not found"), (400, "Merchant not found"), (401, "No key")):
            server.answers(status, error(message))
            assert isinstance(await flutterwave.charge_state("TXN0-1"), Unknown)


class TestRefund:
    async def test_request(self, flutterwave: Adapter, server: Scripted) -> None:
        server.behaviour = refunding(server, 200, DOCUMENTED["refund"])
        started = RefundState(ReportedRefundStatus.PENDING, AMOUNT, "75923")
        assert await flutterwave.refund(REFUND_ORDER) == Done(started)
        [query, sent] = server.recorded
        assert query.target == "/v3/transactions/verify_by_reference?tx_ref=TXN0-1"
        assert (sent.method, sent.target) == ("POST", "/v3/transactions/1163068/refund")
        assert sent.json == {"amount": 1015.5, "comments": "TXN9 Returned"}
        schemas.check(sent)

    @pytest.mark.parametrize("word", ["completed", "failed", "completed-mpgs", "processing"])
    async def test_a_new_refund_is_pending_whatever_its_status(
        self, flutterwave: Adapter, server: Scripted, word: str
    ) -> None:
        server.behaviour = refunding(server, 200, success({**REFUND, "status": word}))
        started = RefundState(ReportedRefundStatus.PENDING, AMOUNT, "75923")
        assert await flutterwave.refund(REFUND_ORDER) == Done(started)

    async def test_a_new_refund_with_an_undocumented_status_is_for_an_administrator(
        self, flutterwave: Adapter, server: Scripted
    ) -> None:
        server.behaviour = refunding(server, 200, success({**REFUND, "status": "new"}))
        answer = await flutterwave.refund(REFUND_ORDER)
        assert isinstance(answer, Done)
        assert answer.value.status is ReportedRefundStatus.PENDING
        assert "new" in answer.value.needs_action

    @pytest.mark.parametrize(
        "change",
        [{"tx_id": 5}, {"tx_id": "x"}, {"status": None}, {"amount_refunded": "all"}, {"id": "x"}],
    )
    async def test_odd_answers(self, flutterwave: Adapter, server: Scripted, change: Any) -> None:
        server.behaviour = refunding(server, 200, success({**REFUND, **change}))
        assert isinstance(await flutterwave.refund(REFUND_ORDER), Unknown)

    async def test_no_error_is_a_final_rejection(
        self, flutterwave: Adapter, server: Scripted
    ) -> None:
        """Flutterwave documents no error after which a refund certainly does not exist."""
        for status, message in (
            (400, "Insufficient balance"),
            (403, "Refunds are not enabled"),
            (400, "Transaction has already been refunded"),
            (400, "Duplicate refund"),
            (401, "Invalid authorization key"),
            (500, "Insufficient balance"),
        ):
            server.behaviour = refunding(server, status, error(message))
            assert isinstance(await flutterwave.refund(REFUND_ORDER), Unknown), message

    async def test_nothing_is_sent_without_the_charges_id(
        self, flutterwave: Adapter, server: Scripted
    ) -> None:
        for status, document in (
            (400, DERIVED["unknown_charge"]),
            (500, {}),
            (200, success({**CHARGE, "id": "1/../2"})),
        ):
            server.answers(status, document)
            assert isinstance(await flutterwave.refund(REFUND_ORDER), Unknown)
        assert {each.method for each in server.recorded} == {"GET"}


class TestRefundStatus:
    async def query(self, flutterwave: Adapter, server: Scripted, **change: Any) -> Any:
        server.answers(200, success({**REFUND, **change}))
        return await flutterwave.refund_state("TXN9", KNOWN)

    async def test_request(self, flutterwave: Adapter, server: Scripted) -> None:
        answer = await self.query(flutterwave, server, status="completed-bank-transfer")
        assert answer == Done(RefundState(ReportedRefundStatus.PAID, AMOUNT, "75923"))
        [sent] = server.recorded
        assert (sent.method, sent.target) == ("GET", "/v3/refunds/75923")

    @pytest.mark.parametrize(
        ("word", "meta", "status"),
        [
            *((word, None, "pending") for word in ("completed", "processing", "pending-momo")),
            *((f"completed-{way}", None, "paid") for way in WAYS),
            ("failed", None, "failed"),
            ("completed", {"disburse_status": "successful"}, "paid"),
            ("completed", '{"disburse_status": "successful"}', "paid"),
            ("completed", {"disburse_status": "failed"}, "failed"),
            ("completed", '{"disburse_status": "failed"}', "failed"),
            ("processing", {"disburse_status": "successful"}, "paid"),
            ("completed", {"disburse_status": "pending"}, "pending"),
            ("completed", "not JSON", "pending"),
            ("completed", "[]", "pending"),
            ("completed-mpgs", {"disburse_status": "successful"}, "paid"),
            ("completed-mpgs", "", "paid"),
        ],
    )
    async def test_documented_results(
        self, flutterwave: Adapter, server: Scripted, word: str, meta: Any, status: str
    ) -> None:
        answer = await self.query(flutterwave, server, status=word, meta=meta)
        expected = RefundState(ReportedRefundStatus(status), AMOUNT, "75923")
        assert answer == Done(expected)

    @pytest.mark.parametrize(
        ("word", "meta"),
        [
            ("pending", None),
            ("completed-by-magic", None),
            ("COMPLETED", None),
            # The status and the result of the disbursement contradict each other.
            ("completed-mpgs", {"disburse_status": "failed"}),
            ("failed", {"disburse_status": "successful"}),
        ],
    )
    async def test_every_other_result_is_for_an_administrator(
        self, flutterwave: Adapter, server: Scripted, word: str, meta: Any
    ) -> None:
        answer = await self.query(flutterwave, server, status=word, meta=meta)
        assert isinstance(answer, Done)
        assert answer.value.status is ReportedRefundStatus.PENDING
        assert word in answer.value.needs_action

    @pytest.mark.parametrize(
        "change",
        [{"id": 75924}, {"id": None}, {"status": None}, {"status": 5}, {"amount_refunded": "all"}],
    )
    async def test_odd_answers(self, flutterwave: Adapter, server: Scripted, change: Any) -> None:
        answer = await self.query(flutterwave, server, **{"status": "completed-mpgs", **change})
        assert isinstance(answer, Unknown)

    async def test_an_unknown_refund_is_queried_again(
        self, flutterwave: Adapter, server: Scripted
    ) -> None:
        for status in (400, 404):
            server.answers(status, error("Refund not found"))
            assert isinstance(await flutterwave.refund_state("TXN9", KNOWN), Unknown)

    @pytest.mark.parametrize("refund_id", [None, "", "1/../2"])
    async def test_nothing_is_queried_without_flutterwaves_id(
        self, flutterwave: Adapter, server: Scripted, refund_id: str | None
    ) -> None:
        known = KnownAs(provider_reference=refund_id, charge_reference="TXN0-1", amount=AMOUNT)
        answer = await flutterwave.refund_state("TXN9", known)
        assert isinstance(answer, Refused)
        assert answer.code is RefusalCode.NOT_SUPPORTED
        assert server.recorded == []


def test_the_fixtures_are_json() -> None:
    assert json.dumps([DOCUMENTED, DERIVED])
