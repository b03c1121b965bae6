"""Kora's responses in every documented format, and in formats that the adapter must not trust."""

from datetime import UTC, datetime
from typing import Any

import pytest

from manilla.kit.money import Money
from manilla.providers.port import (
    Adapter,
    Answer,
    Bank,
    ChargeState,
    Done,
    HostedCheckout,
    RefundState,
    ReportedChargeStatus,
    ReportedRefundStatus,
    ResolvedAccount,
    Sent,
    TransferState,
    TransferStatus,
    Unknown,
    VirtualAccount,
)
from tests.providers.kora.samples import (
    CHARGE,
    DERIVED,
    DOCUMENTED,
    KORA_REFERENCE,
    REFERENCE,
    REFUND,
    TRANSFER,
    TRX_ID,
    ok,
)
from tests.providers.scripted import Scripted
from tests.providers.unknown_values import unknown_values

PAID = Money("NGN", 101550)
FEE = Money("NGN", 1637)
SAMPLES = {**DOCUMENTED, **DERIVED}


async def ask(kora: Adapter, sample: str) -> Answer[Any]:
    match sample:
        case "checkout":
            return await kora.create_checkout(CHARGE)
        case "virtual_account":
            return await kora.create_virtual_account(CHARGE, None)
        case "charge":
            return await kora.charge_state(REFERENCE)
        case "resolved":
            return await kora.resolve("044", "0690000031")
        case "sent":
            return await kora.send(TRANSFER)
        case "transfer":
            return await kora.transfer_state(TRX_ID)
        case "new_refund":
            return await kora.refund(REFUND)
        case _:
            return await kora.refund_state(TRX_ID)


EXPECTED: dict[str, Any] = {
    "checkout": HostedCheckout("https://checkout.korapay.com/u3WuJ7aBcDeF/pay"),
    "virtual_account": VirtualAccount(
        "wema", "8850001234", "Obi Shoes", PAID, datetime(2026, 11, 15, 15, 35, 23, tzinfo=UTC)
    ),
    "charge": ChargeState(ReportedChargeStatus.PAID, PAID, FEE),
    "resolved": ResolvedAccount("ADA OBI"),
    "sent": Sent(None, Money("NGN", 5375)),
    "transfer": TransferState(
        TransferStatus.DELIVERED,
        Money("NGN", 500050),
        Money("NGN", 5375),
        "Payout successful",
        provider_reference="000014261115083012345678901234",
        session_id="000014261115083012345678901234",
    ),
    "new_refund": RefundState(ReportedRefundStatus.PENDING, PAID),
    "refund": RefundState(ReportedRefundStatus.PAID, PAID),
}


@pytest.mark.parametrize("sample", SAMPLES)
async def test_documented_answers_are_read(kora: Adapter, server: Scripted, sample: str) -> None:
    server.answers(200, ok(SAMPLES[sample]))
    assert await ask(kora, sample) == Done(EXPECTED[sample])


@pytest.mark.parametrize("sample", SAMPLES)
async def test_an_answer_without_a_needed_field_is_unknown(
    kora: Adapter, server: Scripted, sample: str
) -> None:
    optional = {
        *("fee", "vat", "amount_paid", "description", "payment_method", "narration", "customer"),
        *("message", "trace_id", "reason", "payment_reference", "transaction_amount"),
        *("created_at", "completed_at", "refund_date", "destination", "merchant_bears_cost"),
        *("bank_name", "bank_code", "account_number"),
    }
    if sample in ("new_refund", "refund"):
        optional |= {"currency", "amount", "amount_returned"}
    if sample in ("virtual_account", "charge"):
        optional |= {"amount"}
    for field in SAMPLES[sample]:
        data = {name: value for name, value in SAMPLES[sample].items() if name != field}
        if (sample, field) == ("virtual_account", "reference"):
            continue  # The field `payment_reference` also contains our reference.
        server.answers(200, ok(data))
        answer = await ask(kora, sample)
        assert isinstance(answer, Done if field in optional else Unknown), (field, answer)


@pytest.mark.parametrize("sample", ["charge", "transfer", "refund"])
async def test_a_status_in_another_currency_is_reported_for_review(
    kora: Adapter, server: Scripted, sample: str
) -> None:
    server.answers(200, ok({**SAMPLES[sample], "currency": "USD"}))
    answer = await ask(kora, sample)
    assert isinstance(answer, Done)
    state, expected = answer.value, EXPECTED[sample]
    amount = state.paid if sample == "charge" else state.amount
    in_naira = expected.paid if sample == "charge" else expected.amount
    assert (state.status, amount) == (expected.status, Money("USD", in_naira.minor))


@pytest.mark.parametrize(("sample", "field", "value"), unknown_values("kora"))
async def test_an_answer_with_an_unexpected_value_is_unknown(
    kora: Adapter, server: Scripted, sample: str, field: str, value: Any
) -> None:
    assert field in SAMPLES[sample]
    server.answers(200, ok({**SAMPLES[sample], field: value}))
    assert isinstance(await ask(kora, sample), Unknown)


@pytest.mark.parametrize("amount", ["1015.5", "1015.50", "1015.500", 1015.5])
async def test_an_amount_is_a_number_or_text(
    kora: Adapter, server: Scripted, amount: str | float
) -> None:
    server.answers(200, ok({**SAMPLES["charge"], "amount_paid": amount}))
    answer = await kora.charge_state(REFERENCE)
    assert isinstance(answer, Done)
    assert answer.value.paid == PAID


@pytest.mark.parametrize(
    ("fee", "minor"),
    [(10, 1000), ("10.75", 1075), (26.875, 2688), ("0.004", 0), (-1, None), ("x", None)]
    + [(None, None), ([], None), (True, None), ("1e5", None), (1e30, None)],
)
async def test_a_fee_is_rounded_and_never_blocks(
    kora: Adapter, server: Scripted, fee: Any, minor: int | None
) -> None:
    server.answers(200, ok({**SAMPLES["transfer"], "fee": fee}))
    answer = await kora.transfer_state(TRX_ID)
    assert isinstance(answer, Done)
    assert answer.value.fee == (None if minor is None else Money("NGN", minor))


class TestChargeReferences:
    """Sources disagree about which field has our reference and which has Kora's reference."""

    @pytest.mark.parametrize(
        "fields",
        [
            {"reference": REFERENCE, "payment_reference": KORA_REFERENCE},
            {"reference": KORA_REFERENCE, "payment_reference": REFERENCE},
        ],
    )
    async def test_ours_can_be_in_either_field(
        self, kora: Adapter, server: Scripted, fields: dict[str, str]
    ) -> None:
        server.answers(200, ok({**SAMPLES["charge"], **fields}))
        state = ChargeState(ReportedChargeStatus.PAID, PAID, FEE, provider_reference=KORA_REFERENCE)
        assert await kora.charge_state(REFERENCE) == Done(state)
        server.answers(200, ok({**SAMPLES["virtual_account"], **fields}))
        assert isinstance(await kora.create_virtual_account(CHARGE, None), Done)

    @pytest.mark.parametrize("sample", ["charge", "virtual_account", "checkout"])
    async def test_an_answer_about_another_charge_is_unknown(
        self, kora: Adapter, server: Scripted, sample: str
    ) -> None:
        others = {"reference": KORA_REFERENCE, "payment_reference": f"{TRX_ID}-2"}
        server.answers(200, ok({**SAMPLES[sample], **others}))
        assert isinstance(await ask(kora, sample), Unknown)


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("pending", ReportedChargeStatus.PENDING),
        ("processing", ReportedChargeStatus.PENDING),
        ("success", ReportedChargeStatus.PAID),
        ("failed", ReportedChargeStatus.FAILED),
        ("expired", ReportedChargeStatus.EXPIRED),
        ("cancelled", ReportedChargeStatus.EXPIRED),
    ],
)
async def test_charge_states(
    kora: Adapter, server: Scripted, word: str, status: ReportedChargeStatus
) -> None:
    server.answers(200, ok({**SAMPLES["charge"], "status": word}))
    answer = await kora.charge_state(REFERENCE)
    assert isinstance(answer, Done)
    assert answer.value.status is status
    assert (answer.value.paid is None) == (status is not ReportedChargeStatus.PAID)


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("pending", TransferStatus.PENDING),
        ("processing", TransferStatus.PENDING),
        ("success", TransferStatus.DELIVERED),
        ("failed", TransferStatus.FAILED),
        ("reversed", TransferStatus.RETURNED),
    ],
)
async def test_transfer_states(
    kora: Adapter, server: Scripted, word: str, status: TransferStatus
) -> None:
    server.answers(200, ok({**SAMPLES["transfer"], "status": word, "message": "Do not honor"}))
    answer = await kora.transfer_state(TRX_ID)
    assert isinstance(answer, Done)
    assert (answer.value.status, answer.value.message) == (status, "Do not honor")


@pytest.mark.parametrize("word", ["processing", "success", "failed"])
async def test_refund_states(kora: Adapter, server: Scripted, word: str) -> None:
    statuses = {
        "processing": ReportedRefundStatus.PENDING,
        "success": ReportedRefundStatus.PAID,
        "failed": ReportedRefundStatus.FAILED,
    }
    server.answers(200, ok({**SAMPLES["refund"], "status": word}))
    assert await kora.refund_state(TRX_ID) == Done(RefundState(statuses[word], PAID))


class TestAmountPaid:
    @pytest.mark.parametrize(
        ("fields", "minor"),
        [
            ({"amount_paid": "900.00", "transaction_status": "underpaid"}, 90000),
            ({"amount_paid": 1200, "transaction_status": "overpaid"}, 120000),
            # Kora returns the excess amount to the customer.
            ({"amount_paid": 1200, "amount_accepted": "1015.50"}, 101550),
            # The accepted amount never exceeds the received amount.
            ({"amount_paid": "900.00", "amount_accepted": "1015.50"}, 90000),
            ({"amount_paid": None}, 101550),
        ],
    )
    async def test_it_is_what_kora_received_and_kept(
        self, kora: Adapter, server: Scripted, fields: dict[str, Any], minor: int
    ) -> None:
        server.answers(200, ok({**SAMPLES["charge"], **fields}))
        answer = await kora.charge_state(REFERENCE)
        assert isinstance(answer, Done)
        assert answer.value.paid == Money("NGN", minor)

    @pytest.mark.parametrize(
        "fields",
        [
            {"amount_paid": 0},
            {"amount_paid": -1},
            {"amount_paid": None, "transaction_status": "underpaid"},
            {"amount_paid": None, "transaction_status": "overpaid"},
        ],
    )
    async def test_a_paid_charge_without_its_amount_is_unknown(
        self, kora: Adapter, server: Scripted, fields: dict[str, Any]
    ) -> None:
        server.answers(200, ok({**SAMPLES["charge"], **fields}))
        assert isinstance(await kora.charge_state(REFERENCE), Unknown)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-15T15:35:23.000Z", datetime(2026, 11, 15, 15, 35, 23, tzinfo=UTC)),
        ("2026-11-15T15:35:23Z", datetime(2026, 11, 15, 15, 35, 23, tzinfo=UTC)),
        ("2026-11-15 15:35:23", datetime(2026, 11, 15, 15, 35, 23, tzinfo=UTC)),
        ("2026-11-15T16:35:23+01:00", datetime(2026, 11, 15, 15, 35, 23, tzinfo=UTC)),
        (None, None),
    ],
)
async def test_times_have_several_formats(
    kora: Adapter, server: Scripted, text: str | None, expected: datetime | None
) -> None:
    account = {**SAMPLES["virtual_account"]["bank_account"], "expiry_date_in_utc": text}
    server.answers(200, ok({**SAMPLES["virtual_account"], "bank_account": account}))
    answer = await kora.create_virtual_account(CHARGE, None)
    assert isinstance(answer, Done)
    assert answer.value.expires_at == expected


async def test_a_trace_id_in_another_form_is_not_called_a_session_id(
    kora: Adapter, server: Scripted
) -> None:
    server.answers(200, ok({**SAMPLES["sent"], "trace_id": "KPY-TRC-1"}))
    sent = await kora.send(TRANSFER)
    assert isinstance(sent, Done)
    assert (sent.value.provider_reference, sent.value.session_id) == ("KPY-TRC-1", None)


async def test_banks_and_balance(kora: Adapter, server: Scripted) -> None:
    listed = {"name": "Access Bank", "slug": "access", "code": "044", "country": "NG"}
    server.answers(200, ok([listed]))
    assert await kora.banks() == Done([Bank("044", "Access Bank")])
    server.answers(200, ok({"data": [listed]}))
    assert isinstance(await kora.banks(), Unknown)
    both = {"pending_balance": 1.5, "available_balance": 400300.90}
    server.answers(200, ok({"NGN": both, "USD": {"available_balance": 1}}))
    assert await kora.balance("NGN") == Done(Money("NGN", 40_030_090))
    server.answers(200, ok({"NGN": {**both, "available_balance": "400300.9"}}))
    assert await kora.balance("NGN") == Done(Money("NGN", 40_030_090))
    assert isinstance(await kora.balance("KES"), Unknown)
