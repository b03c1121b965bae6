"""The retry policy: which calls are retried, and how long to wait before a retry."""

import random
from dataclasses import dataclass

# A request that gets 429 or 503 had no effect. After 500, 502 or 504, the effect is unknown.
# Calls can be repeated: a GET changes nothing, and a POST that moves money has an idempotency key.
# A repeated call may create a second payment link or endpoint. The unused first one does no harm.
RETRIED_STATUSES = frozenset({429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Retries:
    """The settings for retries. `Retries(attempts_max=1)` disables retries."""

    attempts_max: int = 4
    first_wait_seconds: float = 0.5
    wait_seconds_max: float = 30

    def __post_init__(self) -> None:
        if self.attempts_max < 1 or self.first_wait_seconds < 0 or self.wait_seconds_max < 0:
            raise ValueError("attempts_max must be at least 1, and waits must not be negative.")

    def wait_seconds(self, attempts: int, retry_after_seconds: int | None = None) -> float | None:
        """Returns the seconds to wait before the next attempt, or None if the call is not retried.

        The wait is the Retry-After time plus a random delay, so that clients that were rejected at
        the same time do not retry at the same time. If Retry-After is too long, the call is not
        retried.
        """
        if attempts >= self.attempts_max:
            return None
        longest = min(self.first_wait_seconds * 2 ** (attempts - 1), self.wait_seconds_max)
        jitter = random.uniform(0, longest)  # noqa: S311 - it keeps no secret
        if retry_after_seconds is None:
            return jitter
        if retry_after_seconds > self.wait_seconds_max:
            return None
        return retry_after_seconds + jitter
