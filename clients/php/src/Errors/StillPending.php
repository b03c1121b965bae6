<?php

declare(strict_types=1);

namespace Manilla\Errors;

/** The timeout was reached before the transaction had a final status. */
final class StillPending extends ManillaError
{
    public function __construct(public readonly string $trx_id)
    {
        parent::__construct("$trx_id is still pending.");
    }
}
