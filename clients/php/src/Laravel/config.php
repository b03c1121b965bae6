<?php

declare(strict_types=1);

return [
    'url' => env('MANILLA_URL'),
    'merchant_key' => env('MANILLA_MERCHANT_KEY'),
    'api_key' => env('MANILLA_API_KEY'),
    'api_secret' => env('MANILLA_API_SECRET'),
    // The main key's API secret, which signs the notifications to your ipn_url.
    'ipn_secret' => env('MANILLA_IPN_SECRET', env('MANILLA_API_SECRET')),
    // The secret of your webhook endpoint, which starts with whsec_.
    'webhook_secret' => env('MANILLA_WEBHOOK_SECRET'),
];
