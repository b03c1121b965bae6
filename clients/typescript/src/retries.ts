/** The retry policy: which calls are retried, and how long to wait before a retry. */

/**
 * A GET request changes nothing, and a POST request has an idempotency key, so both can be repeated.
 * PATCH and DELETE requests have the same effect if they are repeated.
 */
export const RETRIED_STATUSES: ReadonlySet<number> = new Set([429, 500, 502, 503, 504]);

const WAIT_SECONDS_LIMIT = 86_400;

/**
 * The settings for retries. `{ attemptsMax: 1 }` disables retries. The API's rate limit demands
 * waits of up to 60 seconds.
 */
export interface Retries {
  attemptsMax: number;
  firstWaitSeconds: number;
  waitSecondsMax: number;
}

const DEFAULTS: Retries = { attemptsMax: 4, firstWaitSeconds: 0.5, waitSecondsMax: 60 };

export function completeRetries(given: Partial<Retries> = {}): Retries {
  const retries = { ...DEFAULTS, ...given };
  const { attemptsMax, firstWaitSeconds, waitSecondsMax } = retries;
  const areWaitsPossible = [firstWaitSeconds, waitSecondsMax].every(
    (seconds) => seconds >= 0 && seconds <= WAIT_SECONDS_LIMIT,
  );
  if (!(attemptsMax >= 1) || !areWaitsPossible) {
    throw new RangeError(
      `attemptsMax must be at least 1, and waits must be 0 to ${WAIT_SECONDS_LIMIT} seconds.`,
    );
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
