<?php

declare(strict_types=1);

namespace Manilla;

/** A notification about a status change. `data` has all fields of its data, with exact amounts. */
final class Notification
{
    /** @param array<string, mixed> $data numbers with a fraction are strings */
    public function __construct(
        /** The transaction's type, such as `payment`, `payout` or `refund`. */
        public readonly string $event,
        public readonly string $status,
        public readonly string $trx_id,
        public readonly ?string $ref_trx,
        public readonly ?string $amount,
        public readonly ?string $currency_code,
        public readonly ?string $environment,
        public readonly ?string $message,
        public readonly ?string $error_code,
        public readonly ?int $timestamp,
        /** The event's type, such as `payment.success`, or null if the request is an IPN. */
        public readonly ?string $type,
        /** The id is the same for every delivery attempt, and null if only X-Signature was sent. */
        public readonly ?string $id,
        public readonly array $data,
    ) {
    }

    /** Returns whether this is a sandbox notification. Do not deliver goods for a sandbox payment. */
    public function isSandbox(): bool
    {
        return $this->environment === 'sandbox';
    }

    /**
     * Returns a unique key. Store the key, and ignore a notification whose key is already stored.
     *
     * @return array{string, string, string, string}
     */
    public function handledOnceBy(): array
    {
        // A dispute or share can return to an earlier status, so the message's id distinguishes its events.
        $other = in_array($this->event, ['dispute', 'split'], true) ? $this->id : $this->data['refund_trx_id'] ?? '';
        return [$this->event, $this->trx_id, $this->status, is_string($other) ? $other : ''];
    }
}
