<?php

declare(strict_types=1);

namespace ManillaForWooCommerce\Core;

/** A lock for each order, which all processes of the shop share and a crash releases. */
interface Lock
{
    /**
     * @template T
     * @param callable(): T $work
     * @return T
     * @throws Busy if another process holds the lock for too long
     */
    public function hold(int $order_id, callable $work): mixed;
}
