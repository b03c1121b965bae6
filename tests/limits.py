"""Time limits of the product for tests: so long that a busy machine does not reach them."""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from manilla.kit import time_limits
from manilla.kit.time_limits import TimeLimits

LONG_SECONDS = 80
# The time that `clock.advance` moves when a call stays without a response. It is shorter than the
# other limits, so that nothing else ends.
CALL_SECONDS = 40
# These keep an order: a process ends by itself before it is killed, and no call to a provider takes
# longer than the time in which its charge counts as being opened.
OTHERS = {
    "provider_call_seconds": CALL_SECONDS,
    "notification_seconds": CALL_SECONDS,
    "web_stop_seconds": 40,
    "jobs_stop_seconds": 40,
    "charge_opening_seconds": 2 * LONG_SECONDS,
    "gateway_seconds_min": TimeLimits().gateway_seconds_min,  # a minimum, which limits nothing
}

PRODUCT = TimeLimits()
PATIENT = TimeLimits(
    **{
        name: OTHERS.get(name, max(LONG_SECONDS, getattr(PRODUCT, name)))
        for name in TimeLimits.__struct_fields__
    }
)


def as_variables(**changed: float) -> dict[str, str]:
    """Returns the environment variable that sets the limits of another process."""
    used = msgspec.structs.replace(PATIENT, **changed)
    return {"MANILLA_TIME_LIMITS": msgspec.json.encode(used).decode()}


@contextmanager
def limited(**changed: float) -> Iterator[None]:
    """Changes limits of this process, for tests of these limits.

    Set a limit to zero or to a moment if nothing that the test needs must happen before it. If the
    test needs something to happen first, wait for that, and change the limit then.
    """
    before = time_limits.current
    time_limits.use(msgspec.structs.replace(before, **changed))
    try:
        yield
    finally:
        time_limits.use(before)
