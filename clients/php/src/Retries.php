<?php

declare(strict_types=1);

namespace Manilla;

/**
 * The settings for retries. `new Retries(attempts_max: 1)` disables retries.
 *
 * The API's rate limit demands waits of up to 60 seconds.
 */
final class Retries
{
    // A GET request changes nothing, and a POST request has an idempotency key, so both can be
    // repeated. PATCH and DELETE requests have the same effect if they are repeated.
    public const STATUSES = [429, 500, 502, 503, 504];
    private const WAIT_SECONDS_LIMIT = 86_400;

    public function __construct(
        public readonly int $attempts_max = 4,
        public readonly float $first_wait_seconds = 0.5,
        public readonly float $wait_seconds_max = 60,
    ) {
        if ($attempts_max < 1 || !self::isPossible($first_wait_seconds) || !self::isPossible($wait_seconds_max)) {
            throw new \InvalidArgumentException(
                'attempts_max must be at least 1, and waits must be 0 to ' . self::WAIT_SECONDS_LIMIT . ' seconds.'
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

    private static function isPossible(float $seconds): bool
    {
        return $seconds >= 0 && $seconds <= self::WAIT_SECONDS_LIMIT;
    }
}
