<?php

declare(strict_types=1);

namespace Manilla\Laravel;

use Illuminate\Contracts\Container\Container;
use Illuminate\Routing\Router;
use Illuminate\Support\ServiceProvider;
use Manilla\Client;
use Manilla\Credentials;

/** Registers the client, its configuration, and the middleware `manilla.ipn` and `manilla.webhook`. */
final class ManillaServiceProvider extends ServiceProvider
{
    private const CONFIG = __DIR__ . '/config.php';

    public function register(): void
    {
        $this->mergeConfigFrom(self::CONFIG, 'manilla');
        $this->app->singleton(Client::class, static function (Container $app): Client {
            $config = $app->make('config')->get('manilla');
            foreach (['url', 'merchant_key', 'api_key', 'api_secret'] as $name) {
                if (!is_string($config[$name] ?? null)) {
                    throw new \InvalidArgumentException("The configuration manilla.$name is not set.");
                }
            }
            $credentials = new Credentials($config['merchant_key'], $config['api_key'], $config['api_secret']);
            return new Client($config['url'], $credentials);
        });
    }

    public function boot(Router $router): void
    {
        $router->aliasMiddleware('manilla.ipn', VerifyIpn::class);
        $router->aliasMiddleware('manilla.webhook', VerifyWebhook::class);
        if ($this->app->runningInConsole()) {
            $this->publishes([self::CONFIG => $this->app->configPath('manilla.php')], 'manilla-config');
        }
    }
}
