<?php

declare(strict_types=1);

namespace ManillaForWooCommerce\Core;

/** The order cannot be paid now. */
final class CannotPay extends \RuntimeException
{
    public const ALREADY_PAID = 'already_paid';
    public const NOT_PAYABLE = 'not_payable';
    public const UNKNOWN = 'unknown'; // the API's answer is missing; a repetition is safe
    public const REJECTED = 'rejected';
    public const MONEY_ON_ITS_WAY = 'money_on_its_way';

    public function __construct(public readonly string $problem, ?\Throwable $previous = null)
    {
        parent::__construct($problem, 0, $previous);
    }
}
