<?php
// Finds a method and sends a payout. Needs PHP 8 or newer with allow_url_fopen (the default).

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

// Identify methods by their code, because ids differ between installations.
$answer = call('GET', '/api/v1/payout-methods?currency=NGN');
$methods = json_decode($answer, true)['methods'] ?? throw new RuntimeException($answer);
$ids = array_column($methods, 'id', 'method_code');

$shop = getenv('SHOP_URL') ?: 'https://shop.example';
$amount = '5000.25'; // from your books, as text: a float would round large amounts
$order = [
    'currency_code' => 'NGN',
    'ref_trx' => 'PAYOUT-' . bin2hex(random_bytes(8)),
    'ipn_url' => "$shop/ipn",
    'withdraw_method_id' => $ids['providera_ngn_transfer'],
    'beneficiary' => ['bank_code' => '058', 'account_number' => '0000000000'],
];
// json_encode cannot write exact decimals, so the amount is inserted as text.
$body = '{"payout_amount": ' . $amount . ', ' . substr(json_encode($order, JSON_THROW_ON_ERROR), 1);
// The Idempotency-Key makes it safe to retry this request after a timeout.
$answer = call('POST', '/api/v1/initiate-payout', $body, ["Idempotency-Key: {$order['ref_trx']}"]);
echo $answer, "\n";
exit(isset(json_decode($answer, true)['info']) ? 0 : 1);
