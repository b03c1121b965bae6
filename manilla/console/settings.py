"""Pages for the platform settings: each setting's value, default and last change."""

from collections.abc import Callable
from typing import Any

import msgspec

from manilla.approvals import changes
from manilla.approvals.changes import ApprovalRequested, apply_or_ask
from manilla.approvals.kinds import SettingChange
from manilla.audit import audit
from manilla.audit.entry import AuditEntry
from manilla.console.responses import done_or_asked
from manilla.kit.amount_input import parse_number
from manilla.kit.errors import Refusal
from manilla.kit.money import Money, MoneyError
from manilla.merchants.merchants import MerchantLevel
from manilla.platform import setting_texts, settings
from manilla.platform.settings import WEEKDAYS, Bounds, Setting
from manilla.web import display
from manilla.web.forms import Form
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

DAYS = "payout_days"
UNITS = ("_seconds", "_minutes", "_hours", "_retention_days", "_retention_years")
OTHER_UNITS = {"rate_limit_per_minute": "requests per minute", "margin_alert_days": "days"}
DAY_NAMES = dict(
    zip(
        WEEKDAYS,
        ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
        strict=True,
    )
)
GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("API", ("signature_required", "timestamp_tolerance_seconds", "rate_limit_per_minute")),
    ("Approvals", ("second_factor_for_money", "adjustment_limits")),
    (
        "Payments",
        (
            "checkout_minutes",
            "checkout_choice",
            "customer_email_fallback",
            "sandbox_complete_seconds",
            "way_declines_max",
            "way_declines_days",
        ),
    ),
    ("Payouts", ("withdrawals_enabled", "payouts_held", DAYS, "kyc_required", "phone_required")),
    ("Settlements", ("settlement_hour", "holidays", "settlement_account_wait_hours")),
    (
        "Disputes",
        (
            "dispute_clocks",
            "working_hours",
            "bank_holidays",
            "dispute_reminder_hours",
            "dispute_review",
            "dispute_commission",
            "dispute_rate_per_1000",
        ),
    ),
    (
        "Limits of merchants",
        tuple(
            f"{period}{what}_limits_{level}"
            for level in MerchantLevel
            for what in ("payment", "payout")
            for period in ("", "daily_")
        ),
    ),
    (
        "Fee invoices",
        (
            *("legal_name", "legal_address", "legal_tax_id", "legal_email"),
            *("invoice_prefix", "invoices_since"),
        ),
    ),
    ("Margin", ("margin_alert_days", "margin_alert_transactions")),
    ("Email alerts", ("large_payouts", "low_balances")),
    (
        "Retention",
        (
            "book_retention_years",
            "request_log_retention_days",
            "notification_retention_days",
            "delivery_retention_days",
            "webhook_retention_days",
            "document_retention_days",
        ),
    ),
    (
        "Site texts",
        ("site_name", "site_logo", "site_url", "gateway_name", "gateway_description"),
    ),
)
# The settings that contain an amount per currency, and what no amount means.
AMOUNTS = {
    "adjustment_limits": "None",
    "large_payouts": "No emails",
    "low_balances": "No emails",
    **dict.fromkeys(settings.MERCHANT_LIMITS, "No limit"),
}


class SettingRow(msgspec.Struct, frozen=True):
    """A platform setting as shown on the settings pages."""

    setting: Setting
    bounds: Bounds
    title: str
    value: str
    default: str
    changed: AuditEntry | None  # the audit log's entry about the last change

    @property
    def is_default(self) -> bool:
        return self.setting.value == self.setting.default

    @property
    def options(self) -> list[tuple[str, str]]:
        """Returns the setting's options, or an empty list if it has no fixed options."""
        return [(value, display.title(value)) for value in self.bounds.values]

    @property
    def unit(self) -> str:
        return _unit(self.setting.key)

    @property
    def limits(self) -> str:
        """Returns a description of the allowed values, or "" if there are no limits."""
        if self.setting.key in AMOUNTS:
            return "A whole amount for each currency, such as NGN:10000000,USD:10000."
        unit, words = self.unit, self.bounds.words
        if self.setting.key == DAYS or not words:
            return ""
        words = words.replace("a whole number", f"whole {unit}") if unit else words
        return f"{words[:1].upper()}{words[1:]}."


async def show_all(request: PageRequest) -> PageResponse:
    rows = {row.setting.key: row for row in await _rows(request)}
    grouped = [(title, [rows[key] for key in keys]) for title, keys in GROUPS]
    return request.page("settings.html", groups=grouped)


async def show(request: PageRequest) -> PageResponse:
    return request.page("setting.html", **await _about(request))


async def change(request: PageRequest) -> PageResponse:
    about = await _about(request)
    row: SettingRow = about["row"]
    try:
        change = SettingChange(row.setting.key, _given(request.form, row))
        await changes.check(request.approvals, change)
        await request.confirm_identity()
        result = await apply_or_ask(request.approvals, change)
    except Refusal as refusal:
        return request.form_with_errors(
            "setting.html", refusal, at=((settings.BadSetting, "value"),), **about
        )
    return done_or_asked(request, "/settings", result, f"{row.title} saved.")


async def reset(request: PageRequest) -> PageResponse:
    row: SettingRow = (await _about(request))["row"]
    try:
        change = SettingChange(row.setting.key, row.setting.default)
        result: object | ApprovalRequested = await apply_or_ask(request.approvals, change)
    except Refusal as refusal:
        return request.redirect_with_errors(f"/settings/{row.setting.key}", refusal)
    return done_or_asked(request, "/settings", result, f"{row.title} reset to its default.")


async def _rows(request: PageRequest) -> list[SettingRow]:
    changed = await audit.latest(request.db, "setting.change")
    current = settings.describe(
        await settings.load(request.db), is_development=request.services.is_development
    )
    return [
        SettingRow(
            setting,
            settings.bounds(setting.key),
            _title(setting.key),
            _readable(setting.key, setting.value),
            _readable(setting.key, setting.default),
            changed.get(f"setting:{setting.key}"),
        )
        for setting in current
    ]


async def _about(request: PageRequest) -> dict[str, Any]:
    key = request.parameter("setting")
    for row in await _rows(request):
        if row.setting.key == key:
            chosen = row.setting.value.split(",") if key == DAYS else []
            days = [(day, DAY_NAMES[day], day in chosen) for day in WEEKDAYS]
            return {"row": row, "days": days if key == DAYS else None}
    raise PageNotFound


def _given(given: Form, row: SettingRow) -> str:
    if row.setting.key == DAYS:
        return ",".join(given.all("day"))
    if row.bounds.is_switch:
        return "true" if given.is_checked("value") else "false"
    text = given.text("value", at_most=1000)
    return _without_groups(text) if row.bounds.is_number else text


def _without_groups(text: str) -> str:
    """Removes the group separators from a number: `1,500` becomes `1500`. Keeps other text."""
    try:
        return f"{parse_number(text):f}"
    except MoneyError:
        return text


def _readable(key: str, value: str) -> str:
    """Formats a setting's value for display."""
    if key in AMOUNTS:
        limits = setting_texts.parse_limits(value)
        amounts = (str(Money.of(limit, currency)) for currency, limit in limits.items())
        return ", ".join(amounts) or AMOUNTS[key]
    if key in FORMATS:
        return FORMATS[key](value)
    bounds = settings.bounds(key)
    if bounds.is_switch:
        return "Yes" if value == "true" else "No"
    if bounds.is_number:
        return f"{int(value):,} {_unit(key)}".rstrip()
    return display.title(value) if bounds.values else value


def _weekdays(value: str) -> str:
    days = [DAY_NAMES[day] for day in value.split(",") if day]
    return "Every day" if len(days) == len(WEEKDAYS) else ", ".join(days) or "No days"


def _holidays(value: str) -> str:
    return ", ".join(display.shown_value(day) for day in value.split(",") if day) or "None"


def _hour(value: str) -> str:
    return f"{int(value):02}:00"


FORMATS: dict[str, Callable[[str], str]] = {
    DAYS: _weekdays,
    "holidays": _holidays,
    "settlement_hour": _hour,
}


def _unit(key: str) -> str:
    """Returns the unit of a number, such as `seconds`, or "" if it has none."""
    return key.rpartition("_")[2] if key.endswith(UNITS) else OTHER_UNITS.get(key, "")


def _title(key: str) -> str:
    words = (
        key.removesuffix("_" + _unit(key))
        .replace("_", " ")
        .replace("kyc", "KYC")
        .replace("url", "URL")
        .replace(" unverified", ", unverified merchants")
        .replace(" verified", ", verified merchants")
    )
    return words[:1].upper() + words[1:]
