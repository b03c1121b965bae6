<?php

declare(strict_types=1);

namespace ManillaForWooCommerce\Core;

/** An order, as it is in the shop's database now. */
final class Order
{
    public function __construct(
        public readonly int $id,
        public readonly string $total,
        public readonly string $currency,
        public readonly bool $is_paid, // also if it was refunded since
        public readonly bool $can_be_paid,
        public readonly bool $is_canceled,
        public readonly string $transaction_id,
        public readonly string $description,
        public readonly string $customer_name,
        public readonly string $customer_email,
    ) {
    }
}
