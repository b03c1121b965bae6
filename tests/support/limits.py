"""The product's time limits in the tests, which are long enough for a busy machine."""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from manilla.kit import time_limits
from manilla.kit.time_limits import TimeLimits

LONG_SECONDS = 80
# If a call gets no response, tests use `clock.advance` to move the clock by this time.
# CALL_SECONDS is shorter than the other limits, so that nothing else times out.
CALL_SECONDS = 40
# These limits must stay in order: for example, a process must be able to exit before it is killed.
# Creating a charge may take longer than any call to a provider.
OTHERS = {
    "provider_call_seconds": CALL_SECONDS,
    "notification_seconds": CALL_SECONDS,
    "web_stop_seconds": 40,
    "jobs_stop_seconds": 40,
    "charge_opening_seconds": 2 * LONG_SECONDS,
    "gateway_seconds_min": TimeLimits().gateway_seconds_min,  # a minimum, not a time limit
}

PRODUCT = TimeLimits()
PATIENT = TimeLimits(
    **{
        name: OTHERS.get(name, max(LONG_SECONDS, getattr(PRODUCT, name)))
        for name in TimeLimits.__struct_fields__
    }
)


def as_variables(**changed: float) -> dict[str, str]:
    """Returns the environment variable that sets the time limits for another process."""
    used = msgspec.structs.replace(PATIENT, **changed)
    return {"MANILLA_TIME_LIMITS": msgspec.json.encode(used).decode()}


@contextmanager
def limited(**changed: float) -> Iterator[None]:
    """Changes the time limits of this process, for tests of the limits.

    Set a limit to zero or to a short time only if the test needs nothing to happen before the
    limit. Otherwise, wait for that condition first, and then change the limit.
    """
    before = time_limits.current
    time_limits.use(msgspec.structs.replace(before, **changed))
    try:
        yield
    finally:
        time_limits.use(before)
