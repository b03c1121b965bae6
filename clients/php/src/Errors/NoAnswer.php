<?php

declare(strict_types=1);

namespace Manilla\Errors;

/**
 * There was no readable response after all attempts. The request may have taken effect.
 *
 * You can safely repeat a POST request with the same idempotency key and the same body.
 */
final class NoAnswer extends ManillaError
{
    public function __construct(string $message, public readonly ?string $idempotency_key = null)
    {
        parent::__construct($message);
    }
}
