<?php

declare(strict_types=1);

namespace Manilla\Errors;

/** Base class of every exception that this library throws, except for invalid arguments. */
class ManillaError extends \RuntimeException
{
}
