<?php

declare(strict_types=1);

namespace ManillaForWooCommerce\Core;

final class Reference
{
    /** Returns a new reference. The random part differs in a copy of the shop's database. */
    public static function create(string $prefix, int $order_id): string
    {
        return "$prefix-$order_id-" . bin2hex(random_bytes(4));
    }
}
