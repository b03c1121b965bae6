"""Computes when a dispute must be answered, if its provider reports no deadline."""

from datetime import date, datetime, time, timedelta

from manilla.kit.clock import LAGOS
from manilla.platform import dated
from manilla.platform.settings import PlatformSettings
from manilla.providers.port import DisputeState

_SATURDAY = 5


def respond_by(
    settings: PlatformSettings, kind: str, state: DisputeState, opened_at: datetime
) -> datetime:
    """Returns the provider's deadline, or the end of the time that its kind gives."""
    if state.respond_by is not None:
        return state.respond_by
    opened = opened_at.astimezone(LAGOS)
    clock = dated.value_on(settings.dispute_clocks, opened.date(), _subjects(kind, state))
    found = dated.CLOCK.fullmatch(clock or "")
    assert found is not None, "the setting has a clock for every provider"
    hours = int(found[1])
    if found[2] == "h":
        return opened_at + timedelta(hours=hours)
    return add_working_hours(settings, opened, hours)


def _subjects(kind: str, state: DisputeState) -> tuple[str, ...]:
    """Returns the subjects whose clock applies, the most specific first."""
    channel = [f"{kind}/{state.channel}"] if state.channel else []
    named = [*channel, kind]
    if state.is_international:
        named = [*(f"{each}/international" for each in named), *named]
    return (*named, dated.ANY)


def add_working_hours(settings: PlatformSettings, start: datetime, hours: int) -> datetime:
    """Returns the moment that many working hours after the start."""
    first, last = (int(hour) for hour in settings.working_hours.split("-"))
    holidays = frozenset(settings.bank_holidays.split(","))
    left, moment = timedelta(hours=hours), start.astimezone(LAGOS)
    while True:
        begin, end = _hour(moment.date(), first), _hour(moment.date(), last)
        if is_working_day(moment.date(), holidays) and moment < end:
            moment = max(moment, begin)
            if left <= end - moment:
                return moment + left
            left -= end - moment
        moment = _hour(moment.date() + timedelta(days=1), 0)


def is_working_day(day: date, holidays: frozenset[str]) -> bool:
    return day.weekday() < _SATURDAY and day.isoformat() not in holidays


def _hour(day: date, hour: int) -> datetime:
    return datetime.combine(day, time(), LAGOS) + timedelta(hours=hour)
