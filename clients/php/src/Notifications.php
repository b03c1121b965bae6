<?php

declare(strict_types=1);

namespace Manilla;

use Manilla\Errors\BadAnswer;
use Manilla\Errors\BadNotification;
use Manilla\Errors\NotificationTooOld;
use Manilla\Errors\SignatureMismatch;

/**
 * Verifies that a notification was sent by Manilla, and parses the notification.
 *
 * Signatures are compared in constant time.
 *
 * @phpstan-type Headers array<array-key, mixed>
 */
final class Notifications
{
    public const TOLERANCE_SECONDS = 300;

    private const STANDARD_PREFIX = 'whsec_';

    /**
     * Returns the notification (IPN) if it is from Manilla, otherwise throws BadNotification.
     *
     * If the Standard Webhooks signature is present, it is verified, because it covers the time of the
     * attempt. If only X-Signature is present, the timestamp in the body must be within the tolerance.
     * Otherwise an attacker could remove the other headers and replay a recorded notification.
     *
     * @param string $body the raw request body
     * @param Headers $headers all request headers: getallheaders(), $_SERVER or those of a framework
     * @param string $secret the environment's API secret, as it is or in the form `whsec_...`
     * @param ?int $tolerance_seconds null accepts any age
     */
    public static function verifyIpn(
        string $body,
        array $headers,
        #[\SensitiveParameter] string $secret,
        ?int $tolerance_seconds = self::TOLERANCE_SECONDS,
    ): Notification {
        $lowered = self::lowered($headers);
        if (isset($lowered['webhook-signature'])) {
            return self::verifyStandard($body, $lowered, $secret, $tolerance_seconds);
        }
        $expected = self::plainSignature($body, self::key($secret));
        $given = $lowered['x-signature'] ?? throw new SignatureMismatch('X-Signature is missing.');
        if (!hash_equals($expected, (string) preg_replace('/^sha256=/', '', $given))) {
            throw new SignatureMismatch('X-Signature does not match.');
        }
        $notification = self::read($body, $lowered, null);
        self::checkAge($notification->timestamp, $tolerance_seconds);
        return $notification;
    }

    /**
     * Returns the event that Manilla sent to a webhook endpoint, otherwise throws BadNotification.
     *
     * @param string $body the raw request body
     * @param Headers $headers all request headers: getallheaders(), $_SERVER or those of a framework
     * @param string $secret the endpoint's secret, `whsec_...`
     * @param ?int $tolerance_seconds null accepts any age
     */
    public static function verifyWebhook(
        string $body,
        array $headers,
        #[\SensitiveParameter] string $secret,
        ?int $tolerance_seconds = self::TOLERANCE_SECONDS,
    ): Notification {
        $event = self::verifyStandard($body, self::lowered($headers), $secret, $tolerance_seconds);
        return $event->type === null ? throw new BadNotification('The body has no event type.') : $event;
    }

    /**
     * Returns the headers of a notification with Manilla's signatures, for testing a receiver.
     *
     * @return array<string, string>
     */
    public static function signIpn(
        string $body,
        #[\SensitiveParameter] string $secret,
        string $id,
        string $environment,
        ?int $timestamp = null,
    ): array {
        $key = self::key($secret);
        $now = (string) ($timestamp ?? time());
        return [
            'Content-Type' => 'application/json',
            'X-Signature' => self::plainSignature($body, $key),
            'X-Environment' => $environment,
            'X-Timestamp' => $now,
            'webhook-id' => $id,
            'webhook-timestamp' => $now,
            'webhook-signature' => self::standardSignature($body, $key, $id, $now),
        ];
    }

    /** @param array<string, string> $headers */
    private static function verifyStandard(
        string $body,
        array $headers,
        #[\SensitiveParameter] string $secret,
        ?int $tolerance_seconds,
    ): Notification {
        $id = $headers['webhook-id'] ?? '';
        $sent_at = $headers['webhook-timestamp'] ?? '';
        $expected = self::standardSignature($body, self::key($secret), $id, $sent_at);
        $signatures = $headers['webhook-signature'] ?? throw new SignatureMismatch('webhook-signature is missing.');
        $matches = false;
        foreach (explode(' ', $signatures) as $given) {
            $matches = hash_equals($expected, $given) || $matches;
        }
        if (!$matches) {
            throw new SignatureMismatch('webhook-signature does not match.');
        }
        if (preg_match('/^\d{1,12}$/D', $sent_at) !== 1) {
            throw new BadNotification('webhook-timestamp is not a Unix time.');
        }
        self::checkAge((int) $sent_at, $tolerance_seconds);
        return self::read($body, $headers, $id);
    }

    private static function plainSignature(string $body, #[\SensitiveParameter] string $key): string
    {
        return hash_hmac('sha256', $body, $key);
    }

    private static function standardSignature(
        string $body,
        #[\SensitiveParameter] string $key,
        string $id,
        string $sent_at,
    ): string {
        return 'v1,' . base64_encode(hash_hmac('sha256', "$id.$sent_at.$body", $key, true));
    }

    private static function key(#[\SensitiveParameter] string $secret): string
    {
        $key = $secret;
        if (str_starts_with($secret, self::STANDARD_PREFIX)) {
            $key = base64_decode(substr($secret, strlen(self::STANDARD_PREFIX)), true);
        }
        if ($key === '' || $key === false) {
            // With an empty secret, anyone could compute a valid signature.
            throw new \InvalidArgumentException('The secret is empty, or is not valid base64 after whsec_.');
        }
        return $key;
    }

    private static function checkAge(?int $sent_at, ?int $tolerance_seconds): void
    {
        if ($tolerance_seconds === null) {
            return;
        }
        if ($sent_at === null) {
            throw new NotificationTooOld('The signed part of the notification has no time.');
        }
        if (abs(time() - $sent_at) > $tolerance_seconds) {
            throw new NotificationTooOld("Its time differs from this clock by more than $tolerance_seconds s.");
        }
    }

    /** @param array<string, string> $headers */
    private static function read(string $body, array $headers, ?string $id): Notification
    {
        try {
            $decoded = ExactJson::decode($body);
            $document = Document::of($decoded, 'The body');
            // A notification about a payment created through the legacy endpoint has no field `data`.
            $is_flat = !array_key_exists('data', $decoded);
            $data = $is_flat ? $document : $document->object('data');
            return new Notification(
                event: $document->string('event'),
                status: $document->string('status'),
                trx_id: $data->string('trx_id'),
                ref_trx: $data->stringOrNull('ref_trx'),
                amount: $data->amountOrNull('amount') ?? $data->amountOrNull('payout_amount'),
                currency_code: $data->stringOrNull('currency_code') ?? $data->stringOrNull('currency'),
                environment: $data->stringOrNull('environment') ?? $headers['x-environment'] ?? null,
                message: $document->stringOrNull('message'),
                error_code: $document->stringOrNull('error_code'),
                timestamp: $document->intOrNull('timestamp'),
                type: $document->stringOrNull('type'),
                id: $id,
                data: ExactJson::plain($is_flat ? $decoded : $decoded['data']),
            );
        } catch (\JsonException $error) {
            throw new BadNotification('The body cannot be parsed: ' . $error->getMessage() . '.');
        } catch (BadAnswer $error) {
            throw new BadNotification($error->getMessage());
        }
    }

    /**
     * @param Headers $headers
     * @return array<string, string>
     */
    private static function lowered(array $headers): array
    {
        $lowered = [];
        foreach ($headers as $name => $value) {
            // Frameworks give a list of values for each header.
            $first = is_array($value) ? ($value[0] ?? null) : $value;
            if (is_string($first)) {
                // WordPress gives `webhook_signature`, and $_SERVER has `HTTP_WEBHOOK_SIGNATURE`.
                $plain = str_replace('_', '-', strtolower((string) $name));
                $lowered[(string) preg_replace('/^http-/', '', $plain)] = $first;
            }
        }
        return $lowered;
    }
}
