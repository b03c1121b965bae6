"""Limits on payments and payouts in production, which depend on the merchant's level."""

from datetime import UTC, datetime
from typing import Any

from manilla.kit.clock import LAGOS, start_of_day
from manilla.kit.money import Money
from manilla.ledger import trx_ids
from manilla.merchants.directory import Caller
from manilla.platform.settings import LimitKind, PlatformSettings


def of(settings: PlatformSettings, caller: Caller, kind: LimitKind, currency: str) -> Money | None:
    """Returns the merchant's limit, or None if there is no limit, as in the sandbox."""
    if caller.is_sandbox:
        return None
    return settings.merchant_limit(kind, caller.level, currency)


def of_day(
    settings: PlatformSettings, caller: Caller, kind: LimitKind, currency: str
) -> dict[str, Any]:
    """Returns the fields with which the database checks the merchant's daily limit."""
    limit = of(settings, caller, kind, currency)
    if limit is None:
        return {}
    today = start_of_day(datetime.now(UTC).astimezone(LAGOS).date())
    return {"day_limit_minor": limit.minor, "day_from": trx_ids.floor(today)}
