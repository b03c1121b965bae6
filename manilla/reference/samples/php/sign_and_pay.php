<?php
// Signs a request and creates a payment. Needs PHP 8 or newer with allow_url_fopen (the default).

function sign(string $timestamp, string $method, string $target, string $body): string
{
    return hash_hmac('sha256', "$timestamp.$method.$target.$body", getenv('MANILLA_API_SECRET'));
}

function post(string $target, string $body, string $idempotency_key): string
{
    $timestamp = (string) time();
    $headers = [
        'Content-Type: application/json',
        'Accept: application/json',
        'X-Environment: sandbox',
        'X-Merchant-Key: ' . getenv('MANILLA_MERCHANT_KEY'),
        'X-API-Key: ' . getenv('MANILLA_API_KEY'),
        'X-Timestamp: ' . $timestamp,
        'X-Signature: ' . sign($timestamp, 'POST', $target, $body),
        'Idempotency-Key: ' . $idempotency_key, // makes a retry safe
    ];
    $context = stream_context_create(['http' => [
        'method' => 'POST',
        'header' => implode("\r\n", $headers),
        'content' => $body,
        'timeout' => 30,
        'ignore_errors' => true, // also return the body of error responses
    ]]);
    return (string) file_get_contents(getenv('MANILLA_URL') . $target, false, $context);
}

$shop = getenv('SHOP_URL') ?: 'https://shop.example';
$amount = '1500.50'; // from your books, as text: a float would round large amounts
$order = [
    'currency_code' => 'NGN',
    'ref_trx' => 'ORDER-' . bin2hex(random_bytes(8)),
    'success_redirect' => "$shop/paid",
    'cancel_redirect' => "$shop/basket",
    'ipn_url' => "$shop/ipn",
];
// json_encode cannot write exact decimals, so the amount is inserted as text.
$body = '{"payment_amount": ' . $amount . ', ' . substr(json_encode($order, JSON_THROW_ON_ERROR), 1);
$answer = post('/api/v1/initiate-payment', $body, $order['ref_trx']);
echo $answer, "\n";
exit(isset(json_decode($answer, true)['payment_url']) ? 0 : 1);
