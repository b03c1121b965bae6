<?php

declare(strict_types=1);

namespace Manilla\Models;

/** @internal */
trait FindsMethods
{
    /**
     * Returns the method with this code.
     *
     * Unlike ids, codes are the same in all installations.
     */
    public function byCode(string $method_code): PayoutMethod
    {
        foreach ($this->methods as $method) {
            if ($method->method_code === $method_code) {
                return $method;
            }
        }
        throw new \OutOfBoundsException("$method_code is currently not offered in $this->currency_code.");
    }
}
