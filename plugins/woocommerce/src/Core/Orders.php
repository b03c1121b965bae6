<?php

declare(strict_types=1);

namespace ManillaForWooCommerce\Core;

/** The shop's orders. The core calls these methods only while it holds the order's lock. */
interface Orders
{
    /** Reads the order without any cache. Returns null if it was deleted. */
    public function read(int $order_id): ?Order;

    /** Completes the order with this payment. Throws if the order has not become paid. */
    public function complete(int $order_id, string $trx_id): void;

    /** Stops the order for review and stores the payment. */
    public function holdForReview(int $order_id, string $trx_id): void;

    /** Marks an unpaid order as failed, so that the customer can pay again. */
    public function fail(int $order_id): void;

    public function note(int $order_id, Note $note, string ...$details): void;

    /** Returns the shop's record of a refund that Manilla made, without creating another one. */
    public function recordRefund(int $order_id, string $amount, string $reason, string $refund_trx_id): int;

    public function hasRefund(int $order_id, int $shop_refund_id): bool;

    /** Removes the record of a refund that did not take place. */
    public function removeRefund(int $order_id, int $shop_refund_id): void;
}
