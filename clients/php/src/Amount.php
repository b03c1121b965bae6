<?php

declare(strict_types=1);

namespace Manilla;

/**
 * Converts between the API's amounts and integers of minor units.
 *
 * The client takes and returns amounts as strings in major units, such as '1500.50' for NGN 1,500.50.
 * A float is never used, because a float cannot represent most amounts.
 */
final class Amount
{
    // A JSON number without an exponent.
    private const PATTERN = '/^-?(?:0|[1-9]\d*)(?:\.\d+)?$/D';
    private const LENGTH_MAX = 30;

    /** Returns the amount in major units: '1500.50' for 150050 minor units with two decimals. */
    public static function fromMinor(int $minor, int $decimals = 2): string
    {
        self::checkDecimals($decimals);
        $digits = str_pad(ltrim((string) $minor, '-'), $decimals + 1, '0', STR_PAD_LEFT);
        $whole = substr($digits, 0, strlen($digits) - $decimals);
        $sign = $minor < 0 ? '-' : '';
        return $decimals === 0 ? $sign . $whole : $sign . $whole . '.' . substr($digits, -$decimals);
    }

    /** Returns the amount in minor units: 150050 for '1500.50' with two decimals. */
    public static function toMinor(string $amount, int $decimals = 2): int
    {
        self::checkDecimals($decimals);
        [$whole, $fraction] = explode('.', self::checked($amount) . '.');
        if (rtrim(substr($fraction, $decimals), '0') !== '') {
            throw new \InvalidArgumentException("$amount has more than $decimals decimals.");
        }
        $minor = filter_var(
            self::withoutLeadingZeros($whole . str_pad(substr($fraction, 0, $decimals), $decimals, '0')),
            FILTER_VALIDATE_INT,
        );
        if ($minor === false) {
            throw new \InvalidArgumentException("$amount does not fit into an integer.");
        }
        return $minor;
    }

    /**
     * Returns the amount if it is a decimal number in a string.
     *
     * @internal
     */
    public static function checked(mixed $amount): string
    {
        if (!is_string($amount)) {
            throw new \InvalidArgumentException(
                "Amounts must be strings in major units, such as '1500.50', not " . get_debug_type($amount)
                . '. Amount::fromMinor converts an integer of minor units.'
            );
        }
        if (!self::isAmount($amount)) {
            throw new \InvalidArgumentException('The amount is not a decimal number such as 1500.50.');
        }
        return $amount;
    }

    /** @internal */
    public static function isAmount(string $text): bool
    {
        return strlen($text) <= self::LENGTH_MAX && preg_match(self::PATTERN, $text) === 1;
    }

    private static function checkDecimals(int $decimals): void
    {
        if ($decimals < 0 || $decimals > 4) {
            throw new \InvalidArgumentException('A currency has 0 to 4 decimals.');
        }
    }

    private static function withoutLeadingZeros(string $digits): string
    {
        $sign = str_starts_with($digits, '-') ? '-' : '';
        $rest = ltrim($digits, '-0');
        return $rest === '' ? '0' : $sign . $rest;
    }
}
