<?php

// A shop that takes payments with Manilla. See ../README.md for how to start it.

declare(strict_types=1);

use Manilla\{Amount, Client, Notifications};
use Manilla\Errors\BadNotification;

// In an application, install the package with Composer and load vendor/autoload.php.
require __DIR__ . '/../../../clients/php/autoload.php';

const PRICE = '7250.50';
const CURRENCY = 'NGN';
define('SHOP_URL', getenv('SHOP_URL') ?: 'http://127.0.0.1:9000');

// A real shop has a database. This shop has a file for each order: empty, and then with the transaction id.
function orderFile(string $reference): string
{
    $folder = getenv('SHOP_ORDERS') ?: sys_get_temp_dir() . '/manilla-shop-' . getmyuid();
    is_dir($folder) || mkdir($folder, 0700);
    return "$folder/" . basename($reference);
}

// Creates an order and its payment. The price comes from the server, not from the browser.
function buy(): array
{
    $reference = 'ORDER-' . bin2hex(random_bytes(8));
    $order_url = SHOP_URL . "/orders/$reference";
    touch(orderFile($reference)); // Before the call: a notification can arrive before the response.
    $session = Client::fromEnvironment()->initiatePayment([
        'payment_amount' => PRICE,
        'currency_code' => CURRENCY,
        'ref_trx' => $reference,
        'description' => 'A calabash lamp',
        'success_redirect' => $order_url,
        'cancel_redirect' => $order_url,
        'ipn_url' => SHOP_URL . '/ipn',
    ], idempotency_key: $reference);
    file_put_contents(orderFile($reference), $session->trx_id);
    return ['order_url' => "/orders/$reference", 'payment_url' => $session->payment_url];
}

// Asks Manilla whether the order is paid, and delivers a paid order exactly once.
function isPaid(string $reference, string $trx_id): bool
{
    $file = orderFile($reference);
    if (is_file("$file.delivered") || $trx_id === '') {
        return is_file("$file.delivered");
    }
    $payment = Client::fromEnvironment()->verifyPayment($trx_id);
    // Only success is final: money that arrives late can still turn a failed payment into success.
    if ($payment->status !== 'success' || $payment->currency !== CURRENCY) {
        return false;
    }
    if (Amount::toMinor($payment->amount) !== Amount::toMinor(PRICE)) {
        return false;
    }
    // Only one request can create the file, even if several requests get the result.
    if (@fopen("$file.delivered", 'x')) {
        error_log("Deliver $reference");
    }
    return true;
}

function receiveNotification(): void
{
    try {
        $body = file_get_contents('php://input');
        $ipn = Notifications::verifyIpn($body, getallheaders(), getenv('MANILLA_API_SECRET'));
    } catch (BadNotification) {
        http_response_code(401);
        return;
    }
    if ($ipn->event === 'payment') {
        // Manilla retries after a 404, and shows the failed notification.
        is_file(orderFile($ipn->ref_trx ?? '')) ? isPaid($ipn->ref_trx, $ipn->trx_id) : http_response_code(404);
    }
}

function show(string $name, array $values): void
{
    $values['{{ price }}'] = CURRENCY . ' ' . PRICE;
    echo strtr(file_get_contents(__DIR__ . "/../shop-pages/$name"), $values);
}

function showOrder(string $reference): void
{
    $status = isPaid($reference, file_get_contents(orderFile($reference))) ? 'paid' : 'not paid yet';
    show('order.html', ['{{ reference }}' => $reference, '{{ status }}' => $status]);
}

// Checkout appends ?trx_id=… to the path. The shop does not use it, because anybody can.
$path = explode('?', $_SERVER['REQUEST_URI'])[0];
$is_order = preg_match('#^/orders/(ORDER-[0-9a-f]{16})$#D', $path, $found) && is_file(orderFile($found[1]));
match ($_SERVER['REQUEST_METHOD'] . " $path") {
    'GET /' => show('product.html', ['{{ manilla_url }}' => getenv('MANILLA_URL')]),
    'POST /buy' => print json_encode(buy()),
    'POST /ipn' => receiveNotification(),
    default => $is_order ? showOrder($found[1]) : http_response_code(404),
};
