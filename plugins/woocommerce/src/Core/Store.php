<?php

declare(strict_types=1);

namespace ManillaForWooCommerce\Core;

/** Stores attempts and refunds. Reads must see what other processes have committed. */
interface Store
{
    /** @return list<Attempt> in the order of their creation */
    public function attempts(int $order_id): array;

    public function attempt(string $ref): ?Attempt;

    public function attemptByTrx(string $trx_id): ?Attempt;

    public function saveAttempt(Attempt $attempt): void;

    /** @return list<Attempt> */
    public function dueAttempts(string $environment, int $now, int $limit): array;

    /** @return list<ShopRefund> in the order of their creation */
    public function refunds(int $order_id): array;

    public function refund(string $ref): ?ShopRefund;

    public function refundByTrx(string $trx_id): ?ShopRefund;

    public function saveRefund(ShopRefund $refund): void;

    /** @return list<ShopRefund> */
    public function dueRefunds(string $environment, int $now, int $limit): array;

    /** Delays the next check, so that one broken row does not stop the others. */
    public function postpone(string $ref, int $until): void;

    /** Returns since when refunds made in Manilla have to be read. */
    public function readRefundsSince(): int;

    public function saveReadRefundsSince(int $time): void;
}
