<?php

declare(strict_types=1);

namespace Manilla;

/**
 * A JSON number that PHP would convert to a float, with its exact digits.
 *
 * @internal
 */
final class ExactNumber
{
    public function __construct(public readonly string $digits)
    {
    }
}
