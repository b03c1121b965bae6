"""Pages for the platform settings: each setting's value, default and last change."""

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
from manilla.kit.money import MoneyError
from manilla.platform import settings
from manilla.platform.settings import WEEKDAYS, Bounds, Setting
from manilla.web import display
from manilla.web.forms import Form
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

DAYS = "payout_days"
UNITS = ("_seconds", "_minutes", "_retention_days", "_retention_years")
DAY_NAMES = dict(
    zip(
        WEEKDAYS,
        ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
        strict=True,
    )
)
GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "Safety",
        (
            "signature_required",
            "timestamp_tolerance_seconds",
            "rate_limit_per_minute",
            "second_factor_for_money",
            "adjustment_limits",
        ),
    ),
    ("Payouts", ("withdrawals_enabled", "payouts_held", DAYS, "kyc_required", "phone_required")),
    ("Payments", ("checkout_minutes", "checkout_choice", "sandbox_complete_seconds")),
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
    def limits(self) -> str:
        """Returns a description of the allowed values, or "" if there are no limits."""
        if self.setting.key == "adjustment_limits":
            return "A whole amount for each currency, such as NGN:10000000,USD:10000."
        unit, words = _unit(self.setting.key), self.bounds.words
        if self.setting.key == DAYS or not words:
            return ""
        words = words.replace("a whole number", f"whole {unit}") if unit else words
        return f"{words[:1].upper()}{words[1:]}."


async def show_all(request: PageRequest) -> PageResponse:
    rows = {row.setting.key: row for row in await _rows(request)}
    grouped = [(title, [rows.pop(key) for key in keys]) for title, keys in GROUPS]
    if rows:
        grouped.append(("Other", list(rows.values())))
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
    if key == DAYS:
        days = [DAY_NAMES[day] for day in value.split(",") if day]
        return "Every day" if len(days) == len(WEEKDAYS) else ", ".join(days) or "No days"
    if key == "adjustment_limits":
        limits = settings.parse_limits(value)
        return ", ".join(f"{limit:,} {currency}" for currency, limit in limits.items()) or "None"
    if settings.bounds(key).is_switch:
        return "Yes" if value == "true" else "No"
    if settings.bounds(key).is_number:
        return f"{int(value):,} {_unit(key)}".rstrip()
    return value


def _unit(key: str) -> str:
    """Returns the unit of a duration setting, such as `seconds`, or "" for other settings."""
    return key.rpartition("_")[2] if key.endswith(UNITS) else ""


def _title(key: str) -> str:
    words = (
        key.removesuffix("_" + _unit(key))
        .replace("_", " ")
        .replace("kyc", "KYC")
        .replace("url", "URL")
    )
    return words[:1].upper() + words[1:]
