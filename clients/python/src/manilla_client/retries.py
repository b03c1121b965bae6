"""When a call is retried, and how long to wait before the retry."""

import random
from dataclasses import dataclass

# A request that gets 429 or 503 had no effect. For the other statuses that is unknown, but every
# call can be repeated safely: a GET changes nothing, a POST that moves money has an idempotency
# key, and a payment link or webhook endpoint that was created twice does no harm, because nobody
# knows the first one.
RETRIED_STATUSES = frozenset({429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Retries:
    """The retry policy. `Retries(attempts_max=1)` disables retries."""

    attempts_max: int = 4
    first_wait_seconds: float = 0.5
    wait_seconds_max: float = 30

    def __post_init__(self) -> None:
        if self.attempts_max < 1 or self.first_wait_seconds < 0 or self.wait_seconds_max < 0:
            raise ValueError("attempts_max must be at least 1, and waits must not be negative.")

    def wait_seconds(self, attempts: int, retry_after_seconds: int | None = None) -> float | None:
        """Returns the seconds to wait after this many attempts, or None if no attempts are left.

        The wait is the Retry-After time plus a random delay, so that clients that were rejected
        together do not retry together. If Retry-After is too long, the caller gets the error
        instead of a retry.
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
