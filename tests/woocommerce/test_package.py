"""The plugin's zip contains everything it needs, and nothing that other plugins could share."""

import re
import zipfile
from pathlib import Path

from tests.client_library.php import output, skip_without_php
from tools import woocommerce

# Another plugin has loaded an old copy of the client.
LOADS = r"""
namespace Manilla { final class Client { const VERSION = 'old'; } }
namespace {
    require $argv[1] . '/autoload.php';
    echo ManillaForWooCommerce\Client\Client::VERSION, "\n";
    $made_with = new ReflectionMethod('ManillaForWooCommerce\Core\Payments', '__construct');
    echo $made_with->getParameters()[0]->getType();
}
"""


def test_the_zip_is_the_same_whenever_it_is_built(tmp_path: Path) -> None:
    woocommerce.write(tmp_path / "one.zip")
    woocommerce.write(tmp_path / "two.zip")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


def test_the_zip_has_no_class_in_the_clients_namespace() -> None:
    for name, content in woocommerce.contents().items():
        if name.endswith(".php"):
            assert not re.search(rb"(?<![\w\\])\\?Manilla(\\|;)", content), name
    assert not [name for name in woocommerce.contents() if "tests" in name or "Laravel" in name]


def test_the_plugin_uses_its_own_client(tmp_path: Path) -> None:
    skip_without_php()
    woocommerce.write(tmp_path / "plugin.zip")
    with zipfile.ZipFile(tmp_path / "plugin.zip") as archive:
        archive.extractall(tmp_path)
    shown = output("-r", LOADS, "--", str(tmp_path / woocommerce.SLUG)).splitlines()
    assert shown[0] != "old"
    assert shown[1] == r"ManillaForWooCommerce\Client\Client"


def test_different_versions_and_sleeping_code_are_found() -> None:
    files = woocommerce.contents()
    assert not list(woocommerce.problems(files))
    changed = {"readme.txt": b"Stable tag: 9.9.9", "src/Gateway.php": b"<?php sleep(10);"}
    assert len(list(woocommerce.problems(files | changed))) == 2
