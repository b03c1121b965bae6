<?php
/**
 * Plugin Name: Manilla for WooCommerce
 * Description: Take payments with Manilla: bank transfers, cards and mobile money, on a page or in a dialog.
 * Version: 0.1.0
 * Requires at least: 6.5
 * Requires PHP: 8.1
 * Requires Plugins: woocommerce
 * WC requires at least: 9.6
 * WC tested up to: 11.0
 * License: Apache-2.0
 * License URI: https://www.apache.org/licenses/LICENSE-2.0
 * Text Domain: manilla-for-woocommerce
 * Domain Path: /languages
 */

defined('ABSPATH') || exit;

define('MANILLA_WC_VERSION', '0.1.0');
define('MANILLA_WC_FILE', __FILE__);

require __DIR__ . '/autoload.php';

register_activation_hook(__FILE__, array('ManillaForWooCommerce\DatabaseStore', 'createTables'));
add_action('before_woocommerce_init', array('ManillaForWooCommerce\Plugin', 'declareCompatibility'));
add_action('plugins_loaded', array('ManillaForWooCommerce\Plugin', 'start'), 11);
