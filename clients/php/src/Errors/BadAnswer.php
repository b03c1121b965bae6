<?php

declare(strict_types=1);

namespace Manilla\Errors;

/** The response does not match the API's specification. */
final class BadAnswer extends ManillaError
{
}
