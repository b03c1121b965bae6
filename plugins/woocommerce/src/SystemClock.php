<?php

declare(strict_types=1);

namespace ManillaForWooCommerce;

defined('ABSPATH') || exit;

final class SystemClock implements Core\Clock
{
    public function now(): int
    {
        return time();
    }
}
