<?php

declare(strict_types=1);

// The plugin's zip contains the client in vendor/manilla, in the plugin's own namespace.
(static function (): void {
    $client = __DIR__ . '/vendor/manilla';
    $folders = [
        'ManillaForWooCommerce\\Client\\' => $client,
        'ManillaForWooCommerce\\' => __DIR__ . '/src',
    ];
    if (!is_dir($client)) {
        $folders['Manilla\\'] = dirname(__DIR__, 2) . '/clients/php/src';
    }
    spl_autoload_register(static function (string $class) use ($folders): void {
        foreach ($folders as $prefix => $folder) {
            if (str_starts_with($class, $prefix)) {
                $file = $folder . '/' . str_replace('\\', '/', substr($class, strlen($prefix))) . '.php';
                if (is_file($file)) {
                    require $file;
                    return;
                }
            }
        }
    });
})();
