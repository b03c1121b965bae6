<?php
// Lists payments page by page: list_payments.php QUERY, such as limit=100. Needs PHP 8 or newer with
// allow_url_fopen.

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

$target = '/api/v1/payments?' . $argv[1];
$cursor = '';
while ($cursor !== null) { // on the last page, next_cursor is null
    $answer = get($target . ($cursor === '' ? '' : "&cursor=$cursor"));
    $page = json_decode($answer, true);
    $payments = $page['data'] ?? throw new RuntimeException($answer);
    foreach ($payments as $payment) {
        echo "{$payment['created_at']} {$payment['trx_id']} {$payment['status']}\n";
    }
    $cursor = $page['next_cursor'];
}
