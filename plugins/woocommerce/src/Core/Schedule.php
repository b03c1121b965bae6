<?php

declare(strict_types=1);

namespace ManillaForWooCommerce\Core;

/** When the reconciler asks for a payment or refund again. */
final class Schedule
{
    // After this time, a request can no longer reach the API: its signature has expired.
    public const LOST_SECONDS = 900;
    private const HOUR = 3600;
    private const DAY = 86_400;

    /** Returns null if nothing is expected any more. */
    public static function next(int $now, int $created_at, bool $is_final): ?int
    {
        $age = $now - $created_at;
        if ($is_final && $age > 30 * self::DAY) {
            return null;
        }
        return $now + match (true) {
            $age < self::HOUR => 120,
            $age < 3 * self::DAY => self::HOUR,
            default => self::DAY,
        };
    }
}
