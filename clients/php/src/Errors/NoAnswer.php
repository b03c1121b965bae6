<?php

declare(strict_types=1);

namespace Manilla\Errors;

/** There was no readable response after all attempts. */
final class NoAnswer extends ManillaError
{
}
