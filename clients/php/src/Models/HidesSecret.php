<?php

declare(strict_types=1);

namespace Manilla\Models;

/** @internal */
trait HidesSecret
{
    /** @return array<string, string> the parts that may be shown in a dump */
    public function __debugInfo(): array
    {
        return ['id' => $this->id];
    }
}
