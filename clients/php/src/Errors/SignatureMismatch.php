<?php

declare(strict_types=1);

namespace Manilla\Errors;

/** The signature is missing, or was computed from another body or with another secret. */
final class SignatureMismatch extends BadNotification
{
}
