<?php

declare(strict_types=1);

namespace Manilla\Laravel;

use Manilla\Notification;
use Manilla\Notifications;

/** Verifies that a notification (IPN) is signed with the main key's API secret. */
final class VerifyIpn extends VerifyNotification
{
    protected const SECRET = 'manilla.ipn_secret';

    protected function verify(string $body, array $headers, #[\SensitiveParameter] string $secret): Notification
    {
        return Notifications::verifyIpn($body, $headers, $secret);
    }
}
