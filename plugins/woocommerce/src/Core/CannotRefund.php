<?php

declare(strict_types=1);

namespace ManillaForWooCommerce\Core;

/** Nothing was refunded, or it is not known yet. */
final class CannotRefund extends \RuntimeException
{
    public const NO_PAYMENT = 'no_payment';
    public const UNKNOWN = 'unknown'; // the answer is missing; do not refund again before it is known
    public const CHANGED = 'changed'; // another refund was noted meanwhile
    public const REJECTED = 'rejected';

    public function __construct(
        public readonly string $problem,
        string $message = '',
        ?\Throwable $previous = null,
    ) {
        parent::__construct($message === '' ? $problem : $message, 0, $previous);
    }
}
