<?php

declare(strict_types=1);

use Illuminate\Http\Request;
use Illuminate\Support\Facades\Route;
use Manilla\Laravel\Manilla;

$show = static function (Request $request): array {
    $notification = $request->attributes->get('manilla');
    return ['trx_id' => $notification->trx_id, 'amount' => $notification->amount, 'type' => $notification->type];
};
Route::post('/ipn', $show)->middleware('manilla.ipn');
Route::post('/webhooks', $show)->middleware('manilla.webhook');
Route::post('/other-webhooks', $show)->middleware('manilla.webhook:services.shop.secret');
Route::post('/unset', $show)->middleware('manilla.webhook:services.shop.unset');
Route::get('/site', static fn (): array => ['status' => Manilla::siteInfo()->status]);
