<?php

declare(strict_types=1);

namespace Manilla\Errors;

/** The signature is valid but too old. An attacker may be replaying a recorded notification. */
final class NotificationTooOld extends BadNotification
{
}
