<?php

declare(strict_types=1);

namespace Manilla;

/** A request without a readable response. If `is_final` is true, a retry would not help. */
final class Failure
{
    public function __construct(
        public readonly string $reason,
        public readonly bool $is_final = false,
    ) {
    }
}
