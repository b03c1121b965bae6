"""Parses settings whose text has a structure, such as a list of days or amounts.

Each parser raises a ValueError whose message follows the setting's name.
"""

import re
from collections.abc import Callable, Mapping
from datetime import date
from enum import StrEnum

from manilla.kit.clock import parse_month
from manilla.kit.money import DECIMALS
from manilla.platform import dated

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
LIMIT_DIGITS_MAX = 12
HOLIDAYS_MAX = 180
REMINDER_HOURS_MAX = 240
# An access point accepts only letters and digits. The last letter separates prefix and number.
_INVOICE_PREFIX = re.compile(r"[A-Z0-9]{0,11}[A-Z]")


class CommissionRule(StrEnum):
    """What happens to the commission of a payment whose dispute is lost or accepted."""

    KEPT = "kept"
    RETURNED = "returned"  # in proportion to the amount that was taken


def normalize(key: str, text: str) -> str | None:
    """Returns a list as it is stored, or None if the setting is not a list. Checks other forms."""
    if key in _FORMS and not _has_form(key, text):
        raise ValueError("must have the form that its description shows")
    if "_limits" in key:
        return _normalize_limits(text)
    return _LISTS[key](text) if key in _LISTS else None


def parse_limits(text: str) -> dict[str, int]:
    """Parses limits by currency from a text such as `NGN:10000000,USD:10000`."""
    limits: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        currency, _, limit = (each.strip() for each in part.partition(":"))
        is_number = limit.isascii() and limit.isdigit() and len(limit) <= LIMIT_DIGITS_MAX
        if currency.upper() not in DECIMALS or currency.upper() in limits or not is_number:
            raise ValueError(
                "must list each currency once, with whole major units: NGN:10000000,USD:10000"
            )
        limits[currency.upper()] = int(limit)
    return limits


def _normalize_limits(text: str) -> str:
    return ",".join(f"{currency}:{limit}" for currency, limit in parse_limits(text).items())


def _normalize_days(text: str) -> str:
    days = [day.strip().lower() for day in text.split(",") if day.strip()]
    if not set(days) <= set(WEEKDAYS):
        raise ValueError(f"must be a list of {', '.join(WEEKDAYS)}")
    return ",".join(day for day in WEEKDAYS if day in days)


def _normalize_holidays(text: str) -> str:
    try:
        days = {date.fromisoformat(day.strip()) for day in text.split(",") if day.strip()}
    except ValueError:
        raise ValueError("must be a list of days such as 2026-12-25") from None
    if len(days) > HOLIDAYS_MAX:
        raise ValueError(f"can have at most {HOLIDAYS_MAX} days")
    return ",".join(day.isoformat() for day in sorted(days))


def _has_form(key: str, text: str) -> bool:
    try:
        return _FORMS[key](text)
    except ValueError:
        return False


def _is_hours(text: str) -> bool:
    found = dated.HOURS.fullmatch(text)
    return found is not None and int(found[1]) < int(found[2])


def _are_reminders(text: str) -> bool:
    return all(0 < int(hour) <= REMINDER_HOURS_MAX for hour in text.split(","))


def _is_commission_rule(text: str) -> bool:
    entries = dated.parse(text)
    has_default = any(each.since is None for each in entries)
    return has_default and all(not e.subject and e.value in set(CommissionRule) for e in entries)


def _is_invoice_prefix(text: str) -> bool:
    return not text or _INVOICE_PREFIX.fullmatch(text) is not None


def _is_month(text: str) -> bool:
    return not text or bool(parse_month(text))


# Whether a text has the form of its setting.
_FORMS: Mapping[str, Callable[[str], bool]] = {
    "dispute_clocks": dated.is_clocks,
    "dispute_commission": _is_commission_rule,
    "dispute_reminder_hours": _are_reminders,
    "invoice_prefix": _is_invoice_prefix,
    "invoices_since": _is_month,
    "working_hours": _is_hours,
}
_LISTS: Mapping[str, Callable[[str], str]] = {
    "payout_days": _normalize_days,
    "holidays": _normalize_holidays,
    "bank_holidays": _normalize_holidays,
    "large_payouts": _normalize_limits,
    "low_balances": _normalize_limits,
}
