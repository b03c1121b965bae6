<?php

declare(strict_types=1);

namespace ManillaForWooCommerce\Core;

/** One refund of a payment, made in the shop or in Manilla. */
final class ShopRefund
{
    public function __construct(
        public readonly string $ref, // a refund without a reference of the shop has its trx_id here
        public readonly int $order_id,
        public readonly string $payment_trx_id,
        public readonly string $environment,
        public readonly string $amount,
        public readonly string $reason,
        public readonly int $created_at,
        public int $sent_at, // when the request was sent last
        public RefundState $state = RefundState::Sending,
        public ?string $trx_id = null,
        public ?int $shop_refund_id = null, // the shop's own record of the refund
        public ?int $next_check_at = null,
    ) {
    }
}
