<?php

declare(strict_types=1);

namespace Manilla\Laravel;

use Manilla\Notification;
use Manilla\Notifications;

/** Verifies that a webhook event is signed with the endpoint's secret. */
final class VerifyWebhook extends VerifyNotification
{
    protected const SECRET = 'manilla.webhook_secret';

    protected function verify(string $body, array $headers, #[\SensitiveParameter] string $secret): Notification
    {
        return Notifications::verifyWebhook($body, $headers, $secret);
    }
}
