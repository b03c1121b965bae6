<?php

declare(strict_types=1);

namespace ManillaForWooCommerce\Core;

interface Clock
{
    public function now(): int;
}
