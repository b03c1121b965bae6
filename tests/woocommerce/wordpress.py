"""A real WordPress with a real WooCommerce and the plugin, on MariaDB.

`WORDPRESS_FOLDER` and `WOOCOMMERCE_FOLDER` name folders with their files. Nothing fetches these.
"""

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.client_library.php import COMMAND, send
from tests.support.instance import free_port
from tests.support.timeouts import TIMEOUT_SECONDS
from tools.woocommerce import SLUG, contents

FOLDERS = ("WORDPRESS_FOLDER", "WOOCOMMERCE_FOLDER")
DATABASE = "wordpress"
CONFIG = """<?php
define('DB_NAME', '{database}'); define('DB_USER', 'root'); define('DB_PASSWORD', '');
define('DB_HOST', '127.0.0.1:{port}'); define('DB_CHARSET', 'utf8mb4'); define('DB_COLLATE', '');
$table_prefix = 'wp_';
define('WP_HTTP_BLOCK_EXTERNAL', true); define('WP_ACCESSIBLE_HOSTS', '127.0.0.1');
define('DISABLE_WP_CRON', true); define('AUTOMATIC_UPDATER_DISABLED', true);
define('WP_DEBUG', true); define('WP_DEBUG_DISPLAY', false); define('WP_DEBUG_LOG', '{log}');
foreach (['AUTH', 'SECURE_AUTH', 'LOGGED_IN', 'NONCE'] as $name) {{
    define($name . '_KEY', 'test'); define($name . '_SALT', 'test');
}}
if (!defined('ABSPATH')) define('ABSPATH', __DIR__ . '/');
require_once ABSPATH . 'wp-settings.php';
"""
ROUTER = """<?php
$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
if ($path !== '/' && is_file(__DIR__ . $path)) return false;
require __DIR__ . '/index.php';
"""
# Writes mails to a file. Loses the answers to requests whose URL contains the file's text.
FAULTS = """<?php
add_filter('pre_wp_mail', function ($sent, $mail) {
    file_put_contents(ABSPATH . 'mails', $mail['subject'] . PHP_EOL, FILE_APPEND);
    return true;
}, 10, 2);
add_filter('http_response', function ($response, $arguments, $url) {
    $lost = @file_get_contents(ABSPATH . 'lost');
    return $lost && str_contains($url, $lost) ? new WP_Error('lost', 'Lost.') : $response;
}, 10, 3);
"""
INSTALL = """
define('WP_INSTALLING', true);
require 'wp-load.php';
require_once ABSPATH . 'wp-admin/includes/upgrade.php';
add_filter('pre_wp_mail', '__return_true');
update_option('siteurl', $argv[1]);
wp_install('Shop', 'admin', 'admin@example.com', false, '', 'password');
foreach (['siteurl', 'home'] as $name) update_option($name, $argv[1]);
"""
ACTIVATE = """
require 'wp-load.php';
require_once ABSPATH . 'wp-admin/includes/plugin.php';
$failed = activate_plugin($argv[1]);
if (is_wp_error($failed)) { fwrite(STDERR, $failed->get_error_message()); exit(1); }
"""
SET_UP = """
WC_Install::install();
$options = [
    'woocommerce_currency' => 'NGN', 'woocommerce_default_country' => 'NG:LA',
    'woocommerce_coming_soon' => 'no', 'woocommerce_enable_guest_checkout' => 'yes',
    'woocommerce_manilla_settings' => [
        'enabled' => 'yes', 'title' => 'Pay by bank', 'connection' => $argv[1], 'way' => 'redirect',
    ],
];
foreach ($options as $name => $value) update_option($name, $value);
// WooCommerce refuses this change while it has orders that are stored in one way only.
global $wpdb;
$storage = ['option_name' => 'woocommerce_custom_orders_table_enabled', 'option_value' => $argv[2]];
$wpdb->replace($wpdb->options, $storage + ['autoload' => 'on']);
wp_cache_flush();
$product = new WC_Product_Simple();
$product->set_name('Lamp'); $product->set_regular_price('1500.50'); $product->set_virtual(true);
$product->set_manage_stock(true); $product->set_stock_quantity(100);
$classic = wp_insert_post(['post_type' => 'page', 'post_status' => 'publish',
    'post_title' => 'Classic', 'post_content' => '[woocommerce_checkout]']);
return [$product->save(), $classic];
"""


def skip_without_wordpress() -> None:
    for name in FOLDERS:
        if not Path(os.environ.get(name, "/nowhere")).is_dir():
            pytest.skip(f"{name} names no folder")
    if shutil.which("mariadbd") is None:
        pytest.skip("MariaDB is not installed; Debian's package is mariadb-server-core")


class WordPress:
    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        self.product, self.classic_page = 0, 0

    def run(self, code: str, *words: str) -> Any:
        """Runs PHP in WordPress, and returns what the code returns."""
        call = f"(function () use ($argv) {{ {code} }})()"
        program = f"require 'wp-load.php'; echo json_encode({call});"
        shown: str = self.plain(program, *words)
        return json.loads(shown)

    def plain(self, program: str, *words: str) -> str:
        done = subprocess.run(
            [*COMMAND, "-d", "error_reporting=8191", "-r", program, "--", *words],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    async def ask(self, code: str, *words: str) -> Any:
        return await asyncio.to_thread(self.run, code, *words)

    async def send(
        self, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        return await asyncio.to_thread(send, self.url + path, body, headers)

    def lose(self, url: str) -> None:
        """Loses the answers to requests with this text in their URL, or none if it is empty."""
        (self.folder / "lost").write_text(url)

    def errors_of_the_plugin(self) -> list[str]:
        log = self.folder / "debug.log"
        lines = log.read_text().splitlines() if log.exists() else []
        return [line for line in lines if "manilla" in line.lower()]


@contextlib.contextmanager
def running_mariadb(folder: Path) -> Iterator[int]:
    port, data, socket = free_port(), folder / "data", folder / "socket"
    user = "--user=root"
    install = ["mariadb-install-db", "--no-defaults", "--auth-root-authentication-method=normal"]
    subprocess.run([*install, user, f"--datadir={data}"], check=True, capture_output=True)
    command = ["mariadbd", "--no-defaults", user, f"--datadir={data}", f"--socket={socket}"]
    command += ["--bind-address=127.0.0.1", f"--port={port}", "--innodb-flush-log-at-trx-commit=0"]
    with (folder / "mariadb.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            _create_database(server, socket)
            yield port
        finally:
            server.terminate()
            server.wait(TIMEOUT_SECONDS)


def _create_database(server: "subprocess.Popen[bytes]", socket: Path) -> None:
    command = ["mariadb", "--no-defaults", "-uroot", f"--socket={socket}"]
    deadline = time.monotonic() + TIMEOUT_SECONDS
    statement = f"CREATE DATABASE {DATABASE}"
    while subprocess.run([*command, "-e", statement], capture_output=True, check=False).returncode:
        assert server.poll() is None and time.monotonic() < deadline  # noqa: PT018
        time.sleep(0.1)


@contextlib.contextmanager
def running_wordpress(folder: Path) -> Iterator[WordPress]:
    """Installs WordPress with WooCommerce, and serves it with several processes."""
    site, port = folder / "site", free_port()
    source, woocommerce = (Path(os.environ[name]) for name in FOLDERS)
    shutil.copytree(
        source, site, ignore=lambda at, _: ["plugins"] if at.endswith("wp-content") else []
    )
    plugins = site / "wp-content" / "plugins"
    shutil.copytree(woocommerce, plugins / "woocommerce")
    for name, content in contents().items():
        file = plugins / SLUG / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    with running_mariadb(folder) as database_port:
        config = CONFIG.format(database=DATABASE, port=database_port, log=site / "debug.log")
        (site / "wp-config.php").write_text(config)
        (site / "router.php").write_text(ROUTER)
        wordpress = WordPress(site, f"http://127.0.0.1:{port}")
        wordpress.plain(INSTALL, wordpress.url)
        for name in ("woocommerce/woocommerce", f"{SLUG}/{SLUG}"):
            wordpress.plain(ACTIVATE, f"{name}.php")
        (site / "mails").touch()
        (site / "wp-content" / "mu-plugins").mkdir(exist_ok=True)
        (site / "wp-content" / "mu-plugins" / "test.php").write_text(FAULTS)
        command = ["php", "-d", "opcache.enable_cli=1", "-S", f"127.0.0.1:{port}", "router.php"]
        variables = {**os.environ, "PHP_CLI_SERVER_WORKERS": "4"}
        with (folder / "php.log").open("wb") as log:
            server = subprocess.Popen(command, cwd=site, env=variables, stdout=log, stderr=log)
            try:
                yield wordpress
            finally:
                server.terminate()
                server.wait(TIMEOUT_SECONDS)
