<?php
// Refunds a payment and verifies the refund: refund.php TRX_ID. Needs PHP 8 or newer with
// allow_url_fopen.

function sign(string $timestamp, string $method, string $target, string $body): string
{
    return hash_hmac('sha256', "$timestamp.$method.$target.$body", getenv('MANILLA_API_SECRET'));
}

function call(string $method, string $target, string $body = '', array $more = []): string
{
    $timestamp = (string) time();
    $headers = [
        'Content-Type: application/json',
        'Accept: application/json',
        'X-Environment: sandbox',
        'X-Merchant-Key: ' . getenv('MANILLA_MERCHANT_KEY'),
        'X-API-Key: ' . getenv('MANILLA_API_KEY'),
        'X-Timestamp: ' . $timestamp,
        'X-Signature: ' . sign($timestamp, $method, $target, $body),
        ...$more,
    ];
    $context = stream_context_create(['http' => [
        'method' => $method,
        'header' => implode("\r\n", $headers),
        'content' => $body,
        'timeout' => 30,
        'ignore_errors' => true, // also return the body of error responses
    ]]);
    return (string) file_get_contents(getenv('MANILLA_URL') . $target, false, $context);
}

$payment = $argv[1];
$reference = "REFUND-$payment"; // unique per refund, so a retry does not refund twice
// If `amount` is omitted, the remaining amount is refunded.
$body = json_encode(['trx_id' => $payment, 'ref_trx' => $reference], JSON_THROW_ON_ERROR);
$refund = call('POST', '/api/v1/initiate-refund', $body, ["Idempotency-Key: $reference"]);
$trx_id = json_decode($refund, true)['info']['trx_id'] ?? throw new RuntimeException($refund);

$answer = call('GET', "/api/v1/verify-refund/$trx_id");
echo $answer, "\n";
// If the refund is still pending, wait for the notification, or verify it again later.
exit(in_array(json_decode($answer, true)['status'] ?? '', ['pending', 'success']) ? 0 : 1);
