<?php

declare(strict_types=1);

namespace Manilla\Models;

/** @internal */
trait HasTransactionId
{
    /** Returns `trx_id`, which earlier versions did not have. */
    public function trxId(): string
    {
        return $this->trx_id;
    }
}
