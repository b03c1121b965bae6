<?php

declare(strict_types=1);

namespace Manilla\Errors;

/**
 * Base class of every exception that this library throws, except for invalid arguments.
 *
 * If `outcome_unknown` is true, a request with this `idempotency_key` may have taken effect. Call the
 * method again with the same arguments and the same idempotency key.
 */
class ManillaError extends \RuntimeException
{
    public function __construct(
        string $message,
        public readonly bool $outcome_unknown = false,
        /** The idempotency key of a POST request. Use it to repeat the request. */
        public readonly ?string $idempotency_key = null,
        int $code = 0,
    ) {
        parent::__construct($message, $code);
    }
}
