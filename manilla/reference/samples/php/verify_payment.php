<?php
// Verifies a payment: verify_payment.php TRX_ID. Needs PHP 8 or newer with allow_url_fopen.

function sign(string $timestamp, string $method, string $target, string $body): string
{
    return hash_hmac('sha256', "$timestamp.$method.$target.$body", getenv('MANILLA_API_SECRET'));
}

function get(string $target): string
{
    $timestamp = (string) time();
    $headers = [
        'Accept: application/json',
        'X-Environment: sandbox',
        'X-Merchant-Key: ' . getenv('MANILLA_MERCHANT_KEY'),
        'X-API-Key: ' . getenv('MANILLA_API_KEY'),
        'X-Timestamp: ' . $timestamp,
        'X-Signature: ' . sign($timestamp, 'GET', $target, ''),
    ];
    $context = stream_context_create(['http' => [
        'header' => implode("\r\n", $headers),
        'timeout' => 30,
        'ignore_errors' => true, // also return the body of error responses
    ]]);
    return (string) file_get_contents(getenv('MANILLA_URL') . $target, false, $context);
}

$answer = get('/api/v1/verify-payment/' . $argv[1]);
echo $answer, "\n";
// Fulfill the order only on success, and only if amount and currency match your order.
exit((json_decode($answer, true)['status'] ?? '') === 'success' ? 0 : 1);
