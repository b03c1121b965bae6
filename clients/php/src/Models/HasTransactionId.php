<?php

declare(strict_types=1);

namespace Manilla\Models;

/** @internal */
trait HasTransactionId
{
    /** Returns the payment's id, which is part of the payment URL. Store the id with your order. */
    public function trxId(): string
    {
        return basename((string) parse_url($this->payment_url, PHP_URL_PATH));
    }
}
