"""The retry policy: which calls are retried, and how long to wait before a retry."""

import random
from dataclasses import dataclass

# A GET request changes nothing, and a POST request has an idempotency key, so both can be repeated.
# PATCH and DELETE requests have the same effect if they are repeated.
RETRIED_STATUSES = frozenset({429, 500, 502, 503, 504})
WAIT_SECONDS_LIMIT = 86_400
_DOUBLINGS_MAX = 60


@dataclass(frozen=True, slots=True)
class Retries:
    """The settings for retries. `Retries(attempts_max=1)` disables retries.

    The API's rate limit demands waits of up to 60 seconds.
    """

    attempts_max: int = 4
    first_wait_seconds: float = 0.5
    wait_seconds_max: float = 60

    def __post_init__(self) -> None:
        waits = (self.first_wait_seconds, self.wait_seconds_max)
        if not (self.attempts_max >= 1 and all(0 <= w <= WAIT_SECONDS_LIMIT for w in waits)):
            raise ValueError(
                "attempts_max must be at least 1, and waits must be 0 to "
                f"{WAIT_SECONDS_LIMIT} seconds."
            )

    def wait_seconds(self, attempts: int, retry_after_seconds: int | None = None) -> float | None:
        """Returns the seconds to wait before the next attempt, or None if the call is not retried.

        The wait is the Retry-After time plus a random delay, so that clients that were rejected at
        the same time do not retry at the same time. If Retry-After is too long, the call is not
        retried.
        """
        if attempts >= self.attempts_max:
            return None
        doubled = self.first_wait_seconds * 2 ** min(attempts - 1, _DOUBLINGS_MAX)
        longest = min(doubled, self.wait_seconds_max)
        jitter = random.uniform(0, longest)  # noqa: S311 - it keeps no secret
        if retry_after_seconds is None:
            return jitter
        if retry_after_seconds > self.wait_seconds_max:
            return None
        return retry_after_seconds + jitter
