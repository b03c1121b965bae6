/** The retry policy: which calls are retried, and how long to wait before a retry. */

/**
 * A request that gets 429 or 503 had no effect. After 500, 502 or 504, the effect is unknown. Calls
 * can be repeated: a GET changes nothing, and a POST that moves money has an idempotency key. A
 * repeated call may create a second payment link or endpoint. The unused first one does no harm.
 */
export const RETRIED_STATUSES: ReadonlySet<number> = new Set([429, 500, 502, 503, 504]);

/** The settings for retries. `{ attemptsMax: 1 }` disables retries. */
export interface Retries {
  attemptsMax: number;
  firstWaitSeconds: number;
  waitSecondsMax: number;
}

const DEFAULTS: Retries = { attemptsMax: 4, firstWaitSeconds: 0.5, waitSecondsMax: 30 };

export function completeRetries(given: Partial<Retries> = {}): Retries {
  const retries = { ...DEFAULTS, ...given };
  const { attemptsMax, firstWaitSeconds, waitSecondsMax } = retries;
  if (!(attemptsMax >= 1 && firstWaitSeconds >= 0 && waitSecondsMax >= 0)) {
    throw new RangeError("attemptsMax must be at least 1, and waits must not be negative.");
  }
  return retries;
}

/**
 * Returns the seconds to wait before the next attempt, or null if the call is not retried.
 *
 * The wait is the Retry-After time plus a random delay, so that clients that were rejected at the
 * same time do not retry at the same time. If Retry-After is too long, the call is not retried.
 */
export function waitSeconds(
  retries: Retries,
  attempts: number,
  retryAfterSeconds: number | null = null,
): number | null {
  if (attempts >= retries.attemptsMax) return null;
  const longest = Math.min(retries.firstWaitSeconds * 2 ** (attempts - 1), retries.waitSecondsMax);
  const jitter = Math.random() * longest;
  if (retryAfterSeconds === null) return jitter;
  return retryAfterSeconds > retries.waitSecondsMax ? null : retryAfterSeconds + jitter;
}

export function pause(seconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, seconds * 1000));
}
