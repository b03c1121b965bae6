"""Platform settings, which administrators can change while Manilla runs."""

from datetime import date
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from manilla.audit import audit
from manilla.kit import changes
from manilla.kit.database.connections import Connection, Database, transaction_of
from manilla.kit.errors import Refusal
from manilla.kit.http import is_web_address
from manilla.kit.money import Money
from manilla.kit.texts import is_email
from manilla.platform import setting_texts

WEEKDAYS = setting_texts.WEEKDAYS

ADDRESSES = ("site_logo", "site_url")
Text = Annotated[str, Meta(max_length=500)]


class LimitKind(StrEnum):
    """The kinds of transactions that a merchant's limit applies to."""

    PAYMENT = "payment"
    DAILY_PAYMENT = "daily_payment"
    PAYOUT = "payout"
    DAILY_PAYOUT = "daily_payout"


class CheckoutChoice(StrEnum):
    """What customers choose on checkout: a way to pay, or a gateway."""

    WAYS = "ways"  # checkout shows a single option for all gateways that offer the same way to pay
    GATEWAYS = "gateways"  # one entry for each gateway


class PlatformSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The platform settings with their defaults, limits and descriptions."""

    signature_required: Annotated[
        bool, Meta(description="Whether API requests must have X-Timestamp and X-Signature.")
    ] = True
    timestamp_tolerance_seconds: Annotated[
        int,
        Meta(
            ge=1,
            le=86_400,
            description="How far X-Timestamp may differ from our clock, in either direction.",
        ),
    ] = 300
    rate_limit_per_minute: Annotated[
        int,
        Meta(
            ge=1,
            le=100_000_000,
            description="Maximum number of requests per merchant and IP address in 60 s, in both "
            "environments together. The same limit applies to failed authentications per IP "
            "address.",
        ),
    ] = 120
    checkout_minutes: Annotated[
        int,
        Meta(
            ge=1,
            le=10_080,
            description="How long a payment_url is valid. A change affects only new payments.",
        ),
    ] = 30
    checkout_choice: Annotated[
        CheckoutChoice,
        Meta(
            description="What customers choose on checkout: `ways` (a way to pay; Manilla chooses "
            "the gateway) or `gateways`."
        ),
    ] = CheckoutChoice.WAYS
    sandbox_complete_seconds: Annotated[
        int,
        Meta(
            ge=0,
            le=86_400,
            description="Seconds until a sandbox transaction completes automatically. "
            "After checkout was closed, it takes four times as long, and at least 15 seconds.",
        ),
    ] = 5
    withdrawals_enabled: Annotated[
        bool,
        Meta(
            description="Whether merchants may create payouts and refunds. "
            "While this is false, unsent payouts and refunds wait."
        ),
    ] = True
    payouts_held: Annotated[
        bool,
        Meta(
            description="Whether payouts and refunds are on hold instead of being sent to "
            "providers. New payouts and refunds are still accepted, and status queries continue."
        ),
    ] = False
    payout_days: Annotated[
        str, Meta(description="Weekdays on which payouts are accepted, in Africa/Lagos.")
    ] = ",".join(WEEKDAYS)
    settlement_hour: Annotated[
        int,
        Meta(
            ge=0,
            le=23,
            description="Hour of the day, in Africa/Lagos, from which automatic settlements of "
            "merchants' balances are made.",
        ),
    ] = 8
    holidays: Annotated[
        str,
        Meta(
            max_length=2_000,
            description="Days without automatic settlements, such as 2026-12-25,2026-12-26. "
            "Settlements due on these days are made on the next payout day.",
        ),
    ] = ""
    bank_holidays: Annotated[
        str,
        Meta(
            max_length=2_000,
            description="Days that are not working days of providers and banks, in Africa/Lagos, "
            "such as 2026-12-25. Add holidays when the government announces them.",
        ),
    ] = (
        "2026-10-01,2026-12-25,2026-12-28,2027-01-01,2027-03-26,2027-03-29,2027-05-01,"
        "2027-06-12,2027-10-01,2027-12-25,2027-12-26"
    )
    working_hours: Annotated[
        Text,
        Meta(description="The hours of a working day of providers, in Africa/Lagos, such as 8-17."),
    ] = "8-17"
    dispute_clocks: Annotated[
        Text,
        Meta(
            description="How long merchants can answer a dispute if its provider reports no "
            "deadline: PROVIDER[/CHANNEL][/international]:TIME[@DATE]. TIME is hours (16h) or "
            "working hours (10wh). `*` is every other provider. The time holds for disputes that "
            "are opened since DATE."
        ),
    ] = (
        "*:16h,paystack:16h,flutterwave:48h,flutterwave:10wh@2026-09-13,"
        "flutterwave/international:30wh@2026-09-13"
    )
    dispute_reminder_hours: Annotated[
        Text,
        Meta(description="How many hours before a dispute's deadline merchants get reminders."),
    ] = "24,8,2"
    dispute_commission: Annotated[
        Text,
        Meta(
            description="Whether the commission of a payment is `kept` or `returned` to the "
            "merchant after a lost or accepted dispute. A later rule has a date, such as "
            "kept,returned@2027-01-01. It holds for payments that are created since then."
        ),
    ] = "kept"
    dispute_review: Annotated[
        bool,
        Meta(
            description="Whether an administrator reviews answers to disputes before they are sent."
        ),
    ] = False
    way_declines_max: Annotated[
        int,
        Meta(
            ge=1,
            le=100,
            description="How many declined charges a saved card or mandate can have within "
            "`way_declines_days`. Further charges are rejected until older declines are past.",
        ),
    ] = 4
    way_declines_days: Annotated[
        int,
        Meta(ge=1, le=365, description="The days of the limit `way_declines_max`."),
    ] = 30
    dispute_rate_per_1000: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000,
            description="Disputes per 1,000 successful payments of a merchant in a month above "
            "which the console warns, because card schemes fine such rates.",
        ),
    ] = 9
    margin_alert_days: Annotated[
        int,
        Meta(
            ge=0,
            le=90,
            description="Over how many days an alert compares what each way to pay earned with "
            "what its provider took. 0: no alert.",
        ),
    ] = 0
    margin_alert_transactions: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description="With fewer transactions in this time, a way to pay causes no alert.",
        ),
    ] = 20
    kyc_required: Annotated[
        bool, Meta(description="Whether a merchant needs verified KYC for payouts.")
    ] = False
    phone_required: Annotated[
        bool, Meta(description="Whether a merchant needs a verified phone for payouts.")
    ] = False
    second_factor_for_money: Annotated[
        bool | None,
        Meta(
            description="Whether payouts, refunds, production keys, saved accounts, settlement "
            "accounts and team changes in the dashboard require a second factor. False by default "
            "in development mode."
        ),
    ] = None
    settlement_account_wait_hours: Annotated[
        int,
        Meta(
            ge=0,
            le=720,
            description="Hours until a changed settlement account takes effect. A merchant's first "
            "account takes effect immediately, unless its payouts are protected.",
        ),
    ] = 24
    adjustment_limits: Annotated[
        Text,
        Meta(
            description="Amount per currency, in major units, that one administrator may move "
            "alone in 24 hours in production mode. For a currency that is not listed, a second "
            "administrator must always approve."
        ),
    ] = "NGN:10000000"
    large_payouts: Annotated[
        Text,
        Meta(
            description="A merchant's owners and finance users get an email about each payout of "
            "at least this amount, per currency in major units. "
            "If empty, they get no such emails."
        ),
    ] = "NGN:5000000"
    low_balances: Annotated[
        Text,
        Meta(
            description="Operations users and administrators get an email if a provider's balance "
            "is below this amount, per currency in major units. If empty, they get no such emails."
        ),
    ] = "NGN:500000"
    payment_limits_unverified: Annotated[
        Text,
        Meta(
            description="Maximum amount of one payment to an unverified merchant, "
            "in major units per currency, such as NGN:500000."
        ),
    ] = ""
    daily_payment_limits_unverified: Annotated[
        Text,
        Meta(
            description="Maximum daily total of an unverified merchant's payments, "
            "in major units per currency, such as NGN:500000."
        ),
    ] = ""
    payout_limits_unverified: Annotated[
        Text,
        Meta(
            description="Maximum amount of one payout of an unverified merchant, "
            "in major units per currency, such as NGN:500000."
        ),
    ] = ""
    daily_payout_limits_unverified: Annotated[
        Text,
        Meta(
            description="Maximum daily total of an unverified merchant's payouts, "
            "in major units per currency, such as NGN:500000."
        ),
    ] = ""
    payment_limits_verified: Annotated[
        Text,
        Meta(
            description="Maximum amount of one payment to a verified merchant, "
            "in major units per currency, such as NGN:500000."
        ),
    ] = ""
    daily_payment_limits_verified: Annotated[
        Text,
        Meta(
            description="Maximum daily total of a verified merchant's payments, "
            "in major units per currency, such as NGN:500000."
        ),
    ] = ""
    payout_limits_verified: Annotated[
        Text,
        Meta(
            description="Maximum amount of one payout of a verified merchant, "
            "in major units per currency, such as NGN:500000."
        ),
    ] = ""
    daily_payout_limits_verified: Annotated[
        Text,
        Meta(
            description="Maximum daily total of a verified merchant's payouts, "
            "in major units per currency, such as NGN:500000."
        ),
    ] = ""
    customer_email_fallback: Annotated[
        Text,
        Meta(
            description="Email address sent to providers for payments and payouts that have none. "
            "Defaults to no-reply@ followed by the host of MANILLA_BASE_URL."
        ),
    ] = ""
    request_log_retention_days: Annotated[
        int,
        Meta(
            ge=7,
            le=3_650,
            description="How long API requests stay in the request log. A whole month is removed "
            "when its last day is this old.",
        ),
    ] = 30
    delivery_retention_days: Annotated[
        int,
        Meta(
            ge=30,
            le=3_650,
            description="How long the attempts to deliver notifications are kept.",
        ),
    ] = 90
    notification_retention_days: Annotated[
        int,
        Meta(
            ge=90,
            le=36_500,
            description="How long events and notifications are kept. They are kept at least as "
            "long as the attempts to deliver them.",
        ),
    ] = 3_650
    webhook_retention_days: Annotated[
        int,
        Meta(
            ge=30,
            le=3_650,
            description="How long providers' webhooks are kept. Webhooks for an open charge, "
            "payout, refund or case are kept until it is closed.",
        ),
    ] = 180
    document_retention_days: Annotated[
        int,
        Meta(
            ge=30,
            le=3_650,
            description="How long verification documents are kept after their merchant was "
            "rejected or disabled.",
        ),
    ] = 1_825
    book_retention_years: Annotated[
        int,
        Meta(
            ge=7,
            le=100,
            description="How many years payments, payouts and their postings stay in the database. "
            "`manilla archive run` moves older months to archive files.",
        ),
    ] = 10
    legal_name: Annotated[
        Text, Meta(description="The operator's registered name, on fee invoices to merchants.")
    ] = ""
    legal_address: Annotated[Text, Meta(description="The operator's registered address.")] = ""
    legal_tax_id: Annotated[Text, Meta(description="The operator's tax identification number.")] = (
        ""
    )
    legal_email: Annotated[
        Text, Meta(description="The operator's email address for questions about invoices.")
    ] = ""
    invoice_prefix: Annotated[
        str,
        Meta(
            max_length=12,
            description="The beginning of invoice numbers, such as MAN for MAN000001: capital "
            "letters and digits, with a letter at the end. Each prefix has its own series without "
            "gaps. Each legal entity and each cell needs its own prefix.",
        ),
    ] = ""
    invoices_since: Annotated[
        Text,
        Meta(
            description="The first month for which merchants get fee invoices, such as 2026-12. "
            "If empty, no invoices are issued automatically."
        ),
    ] = ""
    site_name: Annotated[Text, Meta(min_length=1, description="The name of the site.")] = "Manilla"
    site_logo: Annotated[Text, Meta(description="Logo URL. Defaults to Manilla's logo.")] = ""
    site_url: Annotated[Text, Meta(description="Site URL. Defaults to MANILLA_BASE_URL.")] = ""
    gateway_name: Annotated[
        Text, Meta(min_length=1, description="The name of the payment gateway.")
    ] = "Manilla Payments"
    gateway_description: Annotated[Text, Meta(description="One sentence about the gateway.")] = (
        "Payments and payouts for merchants, in naira first."
    )

    def is_payout_day(self, day: date) -> bool:
        return WEEKDAYS[day.weekday()] in self.payout_days.split(",")

    def is_settlement_day(self, day: date) -> bool:
        return self.is_payout_day(day) and day.isoformat() not in self.holidays.split(",")

    def adjustment_limit_in(self, currency: str) -> Money | None:
        """Returns the adjustment limit, or None if every adjustment needs approval."""
        return _limit_in(self.adjustment_limits, currency)

    def large_payout_in(self, currency: str) -> Money | None:
        return _limit_in(self.large_payouts, currency)

    def low_balance_in(self, currency: str) -> Money | None:
        return _limit_in(self.low_balances, currency)

    def merchant_limit(self, kind: LimitKind, level: str, currency: str) -> Money | None:
        """Returns the limit for a merchant of this level, or None if there is no limit."""
        text = getattr(self, f"{kind}_limits_{level}")
        return _limit_in(text, currency) if text else None

    def customer_email(self, base_url: str) -> str:
        """Returns the platform's email address, which providers get if a customer has none."""
        return self.customer_email_fallback or f"no-reply@{urlsplit(base_url).hostname}"


class UnknownSetting(Refusal):
    status, code = 404, "SETTING_NOT_FOUND"
    message = "There is no such setting."


class BadSetting(Refusal):
    status, code = 400, "VALIDATION_FAILED"
    message = "This value is not valid for the setting."


class Bounds(msgspec.Struct, frozen=True):
    """The allowed values of a setting, for forms and hints."""

    is_switch: bool
    is_number: bool
    least: int | None
    most: int | None  # the maximum of a number, or the maximum length of a text
    values: tuple[str, ...] = ()  # the allowed values, if there is a fixed list

    @property
    def words(self) -> str:
        """The allowed values in words, or an empty string if there is no restriction."""
        if self.values:
            return " or ".join(f"`{value}`" for value in self.values)
        if self.is_switch or self.most is None:
            return ""
        if self.is_number:
            return f"a whole number from {self.least:,} to {self.most:,}"
        return f"{self.least or 'up'} to {self.most} characters"


class Setting(msgspec.Struct, frozen=True):
    key: str
    value: str
    default: str
    explanation: str


_FIELDS = {field.name: field for field in msgspec.structs.fields(PlatformSettings)}
# The settings for merchants' limits, with one setting for each limit and level.
MERCHANT_LIMITS = frozenset(name for name in _FIELDS if "_limits_" in name)


def parse(key: str, text: str) -> Any:
    """Converts a text to the setting's value, and validates the value."""
    field = _FIELDS.get(key)
    if field is None:
        raise UnknownSetting(f"There is no setting {key!r}.")
    try:
        normalized = setting_texts.normalize(key, text)
    except ValueError as error:
        raise BadSetting(f"{key} {error}.") from None
    if normalized is not None:
        return normalized
    if key in ADDRESSES and text and not is_web_address(text):
        raise BadSetting(f"{key} must be a URL that starts with https:// or http://.")
    if key == "customer_email_fallback" and text and not is_email(text):
        raise BadSetting(f"{key} must be an email address, such as no-reply@example.com.")
    if not text.isprintable():
        raise BadSetting(f"{key} contains a character that cannot be displayed.")
    if _is_switch(field.default):
        if text not in ("true", "false"):
            raise BadSetting(f"{key} must be `true` or `false`.")
        return text == "true"
    try:
        return msgspec.convert(text, field.type, strict=False)
    except msgspec.ValidationError:
        raise BadSetting(f"{key} must be {bounds(key).words}.") from None


@lru_cache(maxsize=1000)  # cached, because payments and payouts look up the same limits
def _limit_in(text: str, currency: str) -> Money | None:
    limit = setting_texts.parse_limits(text).get(currency)
    return None if limit is None else Money.of(limit, currency)


def render(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_switch(default: Any) -> bool:
    """Whether the setting is a boolean.

    If a boolean's default depends on the mode, its default is None.
    """
    return default is None or isinstance(default, bool)


def in_mode(stored: PlatformSettings, *, is_development: bool) -> PlatformSettings:
    """Sets boolean settings that have no value: true in production mode, otherwise false."""
    unset = [name for name in _FIELDS if getattr(stored, name) is None]
    return msgspec.structs.replace(stored, **dict.fromkeys(unset, not is_development))


def describe(stored: PlatformSettings, *, is_development: bool = False) -> list[Setting]:
    current = in_mode(stored, is_development=is_development)
    default = in_mode(PlatformSettings(), is_development=is_development)
    return [
        Setting(
            name,
            render(getattr(current, name)),
            render(getattr(default, name)),
            field.type.__metadata__[-1].description,
        )
        for name, field in _FIELDS.items()
    ]


def bounds(key: str) -> Bounds:
    field = _FIELDS[key]
    is_switch = _is_switch(field.default)
    is_number = isinstance(field.default, int) and not is_switch
    metas = field.type.__metadata__
    if isinstance(field.default, StrEnum):
        return Bounds(is_switch, is_number, None, None, tuple(type(field.default)))
    if is_number:
        return Bounds(is_switch, is_number, metas[-1].ge, metas[-1].le)
    least = next((meta.min_length for meta in metas if meta.min_length is not None), None)
    most = next((meta.max_length for meta in metas if meta.max_length is not None), None)
    return Bounds(is_switch, is_number, least, most)


class _Stored(msgspec.Struct, frozen=True):
    key: str
    value: str


# Name of a setting in version 0.1.0, which had one limit for all currencies.
# Do not reuse the name: during an upgrade, processes that run that version expect a number.
LIMIT_BEFORE = "adjustment_limit"


async def load(db: Database | Connection) -> PlatformSettings:
    """Loads the settings. Ignores unknown settings, which a newer version may have written."""
    rows = await db.rows(_Stored, "SELECT key, value FROM setting")
    stored = {row.key: row.value for row in rows}
    if LIMIT_BEFORE in stored:
        stored.setdefault("adjustment_limits", f"NGN:{stored[LIMIT_BEFORE]}")
    known = {key: parse(key, value) for key, value in stored.items() if key in _FIELDS}
    return PlatformSettings(**known)


async def change(db: Database | Connection, key: str, text: str) -> None:
    value = render(parse(key, text))
    async with transaction_of(db) as connection:
        await changes.announce(connection, changes.SETTINGS)
        before = render(getattr(await load(connection), key))
        await connection.execute(
            """
            INSERT INTO setting (key, value) VALUES ($1, $2)
                ON CONFLICT (key) DO UPDATE SET value = excluded.value, updated_at = now()""",
            key,
            value,
        )
        if before != value:
            changed = {key: {"before": before, "after": value}}
            await audit.record(connection, "setting.change", f"setting:{key}", changed=changed)


class CurrentSettings:
    """The current platform settings, which the change watch refreshes."""

    def __init__(self, db: Database, watch: changes.ChangeWatch, *, is_development: bool) -> None:
        self._db = db
        self._is_development = is_development
        self.now = in_mode(PlatformSettings(), is_development=is_development)
        watch.follow(changes.SETTINGS, self._refresh)

    async def _refresh(self, _known_version: int) -> None:
        self.now = in_mode(await load(self._db), is_development=self._is_development)
