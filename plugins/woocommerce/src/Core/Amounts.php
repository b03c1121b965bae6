<?php

declare(strict_types=1);

namespace ManillaForWooCommerce\Core;

use Manilla\Amount;

final class Amounts
{
    private const DECIMALS_MAX = 4;

    public static function areEqual(string $one, string $other): bool
    {
        return Amount::toMinor($one, self::DECIMALS_MAX) === Amount::toMinor($other, self::DECIMALS_MAX);
    }
}
