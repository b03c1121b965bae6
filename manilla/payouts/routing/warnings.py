"""Warnings for merchants before they pay to a bank to which transfers are failing."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from manilla.kit.clock import LAGOS
from manilla.payouts.routing.outcomes import RailBank

ALL_RAILS = "all rails"


def all_failing_since(
    rails: Sequence[str], bank: str, failing: Mapping[RailBank, datetime]
) -> datetime | None:
    """Returns since when every one of these rails fails to deliver; None if one delivers."""
    since = [failing[rail, bank] for rail in rails if (rail, bank) in failing]
    return max(since) if since and len(since) == len(rails) else None


def text(bank_name: str, where: str, since: datetime, now: datetime) -> str:
    """Returns the warning, with the time in Lagos, like all times on the pages."""
    at, today = since.astimezone(LAGOS), now.astimezone(LAGOS).date()
    shown = f"{at:%H:%M}" if at.date() == today else f"{at.day} {at:%b, %H:%M}"
    return f"Transfers to {bank_name} are failing on {where} since {shown}."
