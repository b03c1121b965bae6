"""Deadlines that a provider does not report, and reminders before them."""

from datetime import datetime, timedelta

import pytest

from manilla.disputes import clocks
from manilla.kit.clock import LAGOS
from manilla.platform import settings
from manilla.platform.settings import BadSetting, PlatformSettings
from manilla.providers.port import Channel, DisputeState, ReportedDisputeStatus
from tests.disputes.steps import LATER, Disputes

FRIDAY = datetime(2026, 11, 20, 16, 0, tzinfo=LAGOS)
SETTINGS = PlatformSettings(bank_holidays="2026-12-25", working_hours="8-17")


def _state(**changed: object) -> DisputeState:
    state = {"provider_reference": "D-1", "status": ReportedDisputeStatus.NEEDS_RESPONSE}
    return DisputeState(**(state | changed))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "changed", "opened", "expected"),
    [
        ("paystack", {"respond_by": LATER}, FRIDAY, LATER),
        ("paystack", {}, FRIDAY, FRIDAY + timedelta(hours=16)),
        ("another", {}, FRIDAY, FRIDAY + timedelta(hours=16)),
        # One hour on Friday, and nine on Monday.
        ("flutterwave", {}, FRIDAY, datetime(2026, 11, 23, 17, tzinfo=LAGOS)),
        (
            *("flutterwave", {"is_international": True}, FRIDAY),
            datetime(2026, 11, 26, 10, tzinfo=LAGOS),
        ),
        # Before the rule of September 2026.
        (
            *("flutterwave", {}, datetime(2026, 9, 1, 12, tzinfo=LAGOS)),
            datetime(2026, 9, 3, 12, tzinfo=LAGOS),
        ),
        # Christmas and a weekend.
        (
            *("flutterwave", {}, datetime(2026, 12, 24, 20, tzinfo=LAGOS)),
            datetime(2026, 12, 29, 9, tzinfo=LAGOS),
        ),
        ("flutterwave", {}, datetime(2026, 11, 22, 12, tzinfo=LAGOS),
         datetime(2026, 11, 24, 9, tzinfo=LAGOS)),
    ],
)  # fmt: skip
def test_a_deadline_is_reported_or_computed(
    kind: str, changed: dict[str, object], opened: datetime, expected: datetime
) -> None:
    assert clocks.respond_by(SETTINGS, kind, _state(**changed), opened) == expected


def test_the_most_specific_clock_counts() -> None:
    text = "*:1h,kind:2h,kind/card:3h,kind/card/international:4h"
    chosen = PlatformSettings(dispute_clocks=text)
    card = {"channel": Channel.CARD}
    for changed, hours in (
        ({}, 2), ({"is_international": True}, 2), (card, 3), (card | {"is_international": True}, 4),
    ):  # fmt: skip
        expected = FRIDAY + timedelta(hours=hours)
        assert clocks.respond_by(chosen, "kind", _state(**changed), FRIDAY) == expected


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("dispute_clocks", "paystack:16h"),
        ("dispute_clocks", "*:16h@2026-01-01"),
        ("dispute_clocks", "*:16d"),
        ("dispute_clocks", "*:0h"),
        ("dispute_clocks", "*:16h,paystack:16h@yesterday"),
        ("dispute_commission", "given"),
        ("dispute_commission", "kept@2026-01-01"),
        ("dispute_reminder_hours", "24,x"),
        ("dispute_reminder_hours", "0"),
        ("working_hours", "17-8"),
        ("working_hours", "8-25"),
        ("bank_holidays", "Christmas"),
    ],
)
def test_an_unclear_setting_is_rejected(key: str, text: str) -> None:
    with pytest.raises(BadSetting):
        settings.parse(key, text)


@pytest.mark.parametrize("key", ["dispute_clocks", "dispute_commission", "dispute_reminder_hours"])
def test_the_default_has_the_form_of_its_setting(key: str) -> None:
    default = getattr(PlatformSettings(), key)
    assert settings.parse(key, default) == default


async def test_each_reminder_is_sent_once(disputes: Disputes) -> None:
    paid = await disputes.pay()
    soon = datetime.now(LAGOS) + timedelta(hours=5)
    dispute = await disputes.open(paid, respond_by=soon)
    for _ in range(2):
        await disputes.shop.simulator.run_job_now("dispute", dispute.trx_id)
    assert (await disputes.now(dispute)).reminders == 2  # of 24 and of 8 hours
    due = await disputes.db.value("SELECT due_at FROM job WHERE subject = $1", dispute.trx_id)
    assert due <= soon - timedelta(hours=2)
