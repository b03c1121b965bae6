<?php

declare(strict_types=1);

namespace Manilla;

/** The settings for retries. `new Retries(attempts_max: 1)` disables retries. */
final class Retries
{
    // A request that gets 429 or 503 had no effect. After 500, 502 or 504, the effect is unknown.
    // Calls can be repeated: a GET changes nothing, and a POST that moves money has an idempotency key.
    // A repeated call may create a second payment link or endpoint. The unused first one does no harm.
    public const STATUSES = [429, 500, 502, 503, 504];

    public function __construct(
        public readonly int $attempts_max = 4,
        public readonly float $first_wait_seconds = 0.5,
        public readonly float $wait_seconds_max = 30,
    ) {
        if ($attempts_max < 1 || $first_wait_seconds < 0 || $wait_seconds_max < 0) {
            throw new \InvalidArgumentException(
                'attempts_max must be at least 1, and waits must not be negative.'
            );
        }
    }

    /**
     * Returns the seconds to wait before the next attempt, or null if the call is not retried.
     *
     * The wait is the Retry-After time plus a random delay, so that clients that were rejected at the
     * same time do not retry at the same time. If Retry-After is too long, the call is not retried.
     */
    public function waitSeconds(int $attempts, ?int $retry_after_seconds = null): ?float
    {
        if ($attempts >= $this->attempts_max) {
            return null;
        }
        $longest = min($this->first_wait_seconds * 2 ** ($attempts - 1), $this->wait_seconds_max);
        $jitter = $longest * random_int(0, 1_000_000) / 1_000_000;
        if ($retry_after_seconds === null) {
            return $jitter;
        }
        return $retry_after_seconds > $this->wait_seconds_max ? null : $retry_after_seconds + $jitter;
    }
}
