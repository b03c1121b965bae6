<?php

declare(strict_types=1);

namespace Manilla\Errors;

/** The request is not a notification from Manilla. Respond with 401 and ignore it. */
class BadNotification extends ManillaError
{
}
