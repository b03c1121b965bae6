<?php

declare(strict_types=1);

namespace ManillaForWooCommerce\Core;

/** One payment for an order. An order can have several, of which one completes it. */
final class Attempt
{
    public function __construct(
        public readonly string $ref,
        public readonly int $order_id,
        public readonly string $environment,
        public readonly string $amount,
        public readonly string $currency,
        public readonly string $request, // the body of initiate-payment as JSON, to repeat it unchanged
        public readonly int $created_at,
        public int $sent_at, // when the request was sent last
        public AttemptState $state = AttemptState::Starting,
        public ?string $trx_id = null,
        public ?string $payment_url = null,
        public ?int $expires_at = null,
        public ?string $late_money = null,
        public ?int $next_check_at = null,
    ) {
    }
}
