<?php

declare(strict_types=1);

defined('WP_UNINSTALL_PLUGIN') || exit;

// The tables stay: they prove which payments and refunds belong to which order, and prevent that an order
// is paid or refunded again after the plugin was installed again. The credentials are deleted.
delete_option('woocommerce_manilla_settings');
delete_transient('manilla_account');
