<?php

declare(strict_types=1);

namespace ManillaForWooCommerce\Core;

use Manilla\Client;
use Manilla\Errors\ApiError;
use Manilla\Errors\BadNotification;
use Manilla\Errors\ManillaError;
use Manilla\Errors\RateLimited;
use Manilla\Notifications;

/** Payments and refunds of one shop, its webhook and its reconciler. */
final class Shop
{
    private const ROWS_MAX = 50;

    public readonly Payments $payments;
    public readonly Refunds $refunds;

    /** @param \Closure(\Throwable): void $log */
    public function __construct(
        private readonly Client $client,
        private readonly Orders $orders,
        private readonly Store $store,
        private readonly Lock $lock,
        private readonly Clock $clock,
        private readonly Config $config,
        private readonly \Closure $log,
    ) {
        $ports = [$client, $orders, $store, $lock, $clock, $config];
        $this->payments = new Payments(...$ports);
        $this->refunds = new Refunds(...$ports);
    }

    /**
     * Returns the work that an event of the shop's webhook endpoint asks for, or null.
     *
     * The event is only a reason to ask the API. Nothing in it is believed.
     *
     * @param array<array-key, mixed> $headers
     * @return array{string, string, string}|null
     * @throws BadNotification
     */
    public function receive(string $body, array $headers, #[\SensitiveParameter] string $secret): ?array
    {
        $event = Notifications::verifyWebhook($body, $headers, $secret);
        if ($event->environment !== null && $event->environment !== $this->config->environment) {
            return null;
        }
        $attempt = $this->store->attempt($event->ref_trx ?? '') ?? $this->store->attemptByTrx($event->trx_id);
        if ($attempt === null) {
            return null; // The merchant's other programs create payments too.
        }
        $refund_id = $event->data['refund_trx_id'] ?? null;
        return match (true) {
            $event->event === 'payment' => ['payment', $attempt->ref, $event->trx_id],
            $event->event === 'refund' && is_string($refund_id) => ['refund', $attempt->ref, $refund_id],
            default => null,
        };
    }

    /** Does the work that `receive` has returned. */
    public function work(string $kind, string $ref, string $trx_id): void
    {
        $attempt = $this->store->attempt($ref);
        if ($attempt === null) {
            return;
        }
        if ($kind === 'payment') {
            $this->payments->settle($attempt, $trx_id);
        } else {
            $this->refunds->note($this->client->verifyRefund($trx_id));
        }
    }

    /** Asks for everything that is open. Returns the number of payments and refunds that it settled. */
    public function reconcile(): int
    {
        $now = $this->clock->now();
        $environment = $this->config->environment;
        $settled = 0;
        try {
            foreach ($this->store->dueAttempts($environment, $now, self::ROWS_MAX) as $attempt) {
                $settled += $this->tried($attempt->ref, fn () => $this->payments->settle($attempt));
            }
            foreach ($this->store->dueRefunds($environment, $now, self::ROWS_MAX) as $refund) {
                $settled += $this->tried($refund->ref, fn () => $this->refunds->settle($refund));
            }
            $this->refunds->readNew();
        } catch (ManillaError | Busy $error) {
            ($this->log)($error);
        }
        return $settled;
    }

    /** Settles one row. Its error must not stop the others, unless the API itself does not answer. */
    private function tried(string $ref, callable $settle): int
    {
        try {
            $this->store->postpone($ref, $this->clock->now() + Schedule::LOST_SECONDS);
            $settle();
            return 1;
        } catch (\Throwable $error) {
            $is_refused = $error instanceof ApiError && !$error instanceof RateLimited && $error->status < 500;
            if ($error instanceof ManillaError && !$is_refused) {
                throw $error;
            }
            ($this->log)($error);
            return 0;
        }
    }
}
