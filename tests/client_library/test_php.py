"""The PHP client needs only curl and json, and works with and without Composer."""

import asyncio
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.client_library.php import CLIENT, output, readme_programs, skip_without_php
from tests.client_library.test_retries import SITE, good
from tests.notify.receiver import Receiver, answer, hang, raw, receiving
from tests.support.certificates import Certificate

FILES = sorted(CLIENT.rglob("*.php"))
pytestmark = pytest.mark.long
PROXY = r"""
namespace Manilla;
require 'autoload.php';
[, $url, $proxy] = $argv;
$credentials = new Credentials('test_key', 'test_api', 'test_secret');
$client = new Client($url, $credentials, new Retries(1), proxy: $proxy ?: null);
try {
    echo $client->siteInfo()->status;
} catch (Errors\NoAnswer) {
    echo 'no answer';
}
"""
# Calls the API once per word, and prints each status or error.
PROGRAM = r"""
namespace Manilla;
require 'autoload.php';
[, $url, $calls, $seconds, $ca_file] = $argv;
$credentials = new Credentials('test_key', 'test_api', 'test_secret');
$client = new Client($url, $credentials, new Retries(1), (float) $seconds, $ca_file ?: null);
for ($call = 0; $call < (int) $calls; $call++) {
    try {
        echo $client->siteInfo()->status, "\n";
    } catch (Errors\ManillaError $error) {
        echo (new \ReflectionClass($error))->getShortName(), ': ', $error->getMessage(), "\n";
    }
}
"""
# Sends with PHP's streams instead of curl, as a framework with its own HTTP functions would.
OWN_TRANSPORT = r"""
namespace Manilla;
require 'autoload.php';
final class Streams implements Transport
{
    public function send(
        string $method,
        string $url,
        array $headers,
        string $body,
        float $timeout_seconds,
    ): Answer|Failure {
        $lines = array_map(fn ($name, $value) => "$name: $value", array_keys($headers), $headers);
        $sent = ['method' => $method, 'header' => $lines, 'content' => $body];
        $how = ['ignore_errors' => true, 'timeout' => $timeout_seconds];
        $context = stream_context_create(['http' => $sent + $how]);
        $content = @file_get_contents($url, false, $context);
        if ($content === false) {
            return new Failure('No response.');
        }
        preg_match('/ (\d+) /', $http_response_header[0], $status);
        return new Answer((int) $status[1], ['Retry-After' => '0'], $content);
    }
}
[, $url] = $argv;
$credentials = new Credentials('test_key', 'test_api', 'test_secret');
$own = new Streams();
$client = new Client($url, $credentials, new Retries(2), transport: $own, user_agent: 'shop/1.0');
echo $client->siteInfo()->status, ' ', extension_loaded('curl') ? 'with curl' : 'without curl';
"""
# Verifies a webhook with the names that WordPress and $_SERVER give to its headers.
RENAMED = r"""
namespace Manilla;
require 'autoload.php';
$data = '"event":"payment","status":"completed","data":{"trx_id":"TXN1"}';
$body = '{"type":"payment.success",' . $data . '}';
$signed = Notifications::signIpn($body, 'whsec_c2VjcmV0', 'msg_1', 'sandbox');
$names = [
    'wordpress' => fn ($name) => strtolower(str_replace('-', '_', $name)),
    'server' => fn ($name) => 'HTTP_' . strtoupper(str_replace('-', '_', $name)),
];
foreach ($names as $rename) {
    $headers = ['REQUEST_TIME' => 1, 'argv' => ['x']];
    foreach ($signed as $name => $value) {
        $headers[$rename($name)] = $rename === $names['wordpress'] ? [$value] : $value;
    }
    echo Notifications::verifyWebhook($body, $headers, 'whsec_c2VjcmV0')->trx_id, "\n";
}
foreach ([[], $headers] as $headers) {
    try {
        Notifications::verifyWebhook($body . ' ', $headers, 'whsec_c2VjcmV0');
    } catch (Errors\SignatureMismatch $error) {
        echo $error->getMessage(), "\n";
    }
}
"""
SHOWN = r"""
require 'autoload.php';
$credentials = new Manilla\Credentials('test_key', 'test_hidden_1', 'test_hidden_2');
var_dump($credentials, new Manilla\Client('http://127.0.0.1', $credentials));
print_r(new Manilla\Models\EndpointSecret(id: 'we_1', secret: 'test_hidden_3'));
"""
REJECTED = r"""
namespace Manilla;
require 'autoload.php';
$made = [
    fn () => new Credentials('test_key', 'api', 'secret'),
    fn () => new Credentials('', 'api', 'secret'),
    fn () => new Credentials("test_key\r\nX-Other: 1", 'test_api', 'test_secret'),
    fn () => new Credentials('test_key', "test_api\n", 'test_secret'),
    fn () => new Credentials('test_key', 'test_api', 'test_secret '),
    fn () => new Retries(attempts_max: 0),
    fn () => new Retries(wait_seconds_max: INF),
    fn () => new Retries(first_wait_seconds: NAN),
    fn () => Credentials::fromEnvironment(),
];
$urls = ['', 'pay.example', 'ftp://pay.example', 'https://pay.example/v1', 'https://a@pay.example'];
foreach ($urls as $url) {
    $made[] = fn () => new Client($url, new Credentials('key', 'api', 'secret'));
}
foreach ([0, -1, INF, NAN] as $seconds) {
    $credentials = new Credentials('key', 'api', 'secret');
    $made[] = fn () => new Client('https://pay.example', $credentials, timeout_seconds: $seconds);
}
foreach ([-1, NAN] as $seconds) {
    $client = new Client('https://pay.example', new Credentials('key', 'api', 'secret'));
    $made[] = fn () => $client->waitForPayment('TXN1', timeout_seconds: $seconds);
}
$agent = "shop\r\nX-Other: 1";
$made[] = fn () => new Client('https://pay.example', $credentials, user_agent: $agent);
foreach ($made as $number => $make) {
    try {
        $make();
        echo "$number was accepted\n";
    } catch (\InvalidArgumentException) {
    }
}
echo (new Credentials('key', 'api', 'secret'))->environment();
"""


@pytest.fixture(autouse=True, scope="module")
def _php() -> None:
    skip_without_php()


def test_every_file_has_valid_syntax(tmp_path: Path) -> None:
    for number, program in enumerate(readme_programs()):
        text = program if program.startswith("<?php") else f"<?php\n{program}"
        (tmp_path / f"{number}.php").write_text(text)
    for file in [*FILES, *tmp_path.glob("*.php")]:
        assert output("-l", str(file)).startswith("No syntax errors"), file


def test_it_needs_only_curl_and_json() -> None:
    required = json.loads((CLIENT / "composer.json").read_text())["require"]
    assert required == {"php": ">=8.1", "ext-curl": "*", "ext-json": "*"}
    alone = ["-n", "-d", "extension=curl"]
    shown = output(*alone, "-r", PROGRAM, "--", "http://127.0.0.1:1", "1", "5", "")
    assert shown.startswith("NoAnswer: ")


def test_it_works_when_composer_has_installed_it(tmp_path: Path) -> None:
    if shutil.which("composer") is None:
        pytest.skip("composer is not installed; Debian's package is composer")
    (tmp_path / "composer.json").write_text("{}")
    for words in (
        ["validate", "--strict", str(CLIENT / "composer.json")],
        ["config", "repositories.manilla", "path", str(CLIENT)],
        ["config", "repositories.packagist", "false"],
        ["require", "manilla/client:@dev"],
    ):
        composer = ["composer", "--no-interaction", *words]
        done = subprocess.run(composer, cwd=tmp_path, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
    program = "require 'vendor/autoload.php'; echo Manilla\\Client::VERSION;"
    assert re.fullmatch(r"\d+\.\d+\.\d+", output("-r", program, at=tmp_path))


def test_secrets_are_never_shown() -> None:
    assert "hidden" not in output("-r", SHOWN)


def test_impossible_settings_are_rejected() -> None:
    assert output("-r", REJECTED) == "production"


async def test_a_connection_closed_meanwhile_costs_no_attempt() -> None:
    body = json.dumps(SITE).encode()
    kept = raw(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    async with receiving() as service:
        service.answers += [kept, kept]
        assert await called(service, calls=2) == "active\nactive\n"
    assert len(service.received) == 2


async def test_a_hanging_service_times_out() -> None:
    async with receiving() as service:
        service.answers.append(hang())
        assert "timed out" in await called(service, seconds="0.2")


async def test_too_large_a_response_is_not_read() -> None:
    async with receiving() as service:
        service.answers.append(answer(200, b" " * (8 * 1024 * 1024 + 1)))
        assert await called(service) == "NoAnswer: The response is too large.\n"


async def test_only_a_proxy_that_the_program_names_is_used() -> None:
    closed = "http://127.0.0.1:1"
    async with receiving() as service:
        service.answers.append(good())
        url = service.url.removesuffix("/ipn")
        for proxy, expected in (("", "active"), (closed, "no answer")):
            words = ("-r", PROXY, "--", url, proxy)
            variables = {"http_proxy": closed, "all_proxy": closed}
            assert await asyncio.to_thread(output, *words, variables=variables) == expected


async def test_only_a_trusted_certificate_is_accepted(tmp_path: Path) -> None:
    certificate, service = Certificate(tmp_path), Receiver()
    service.answers += [good()]
    server = await asyncio.start_server(service.serve, "localhost", 0, ssl=certificate.of_server())
    async with server:
        url = f"https://localhost:{server.sockets[0].getsockname()[1]}"
        assert "certificate cannot be verified" in await printed(url)
        assert await printed(url, ca_file=str(certificate.file)) == "active\n"
    assert len(service.received) == 1


async def test_a_program_can_pass_its_own_transport() -> None:
    async with receiving() as service:
        service.answers += [answer(503), good()]
        url = service.url.removesuffix("/ipn")
        words = ("-n", "-r", OWN_TRANSPORT, "--", url)  # without any extension
        assert await asyncio.to_thread(output, *words) == "active without curl"
    sent = service.received[1].headers
    assert re.fullmatch(r"manilla-php/\d+\.\d+\.\d+ shop/1\.0", sent["user-agent"])
    assert len(sent["x-signature"]) == 64


def test_headers_are_accepted_as_wordpress_and_php_name_them() -> None:
    assert output("-r", RENAMED).splitlines() == [
        *("TXN1", "TXN1"),
        *("webhook-signature is missing.", "webhook-signature does not match."),
    ]


async def called(service: Receiver, calls: int = 1, seconds: str = "30") -> str:
    return await printed(service.url.removesuffix("/ipn"), calls, seconds)


async def printed(url: str, calls: int = 1, seconds: str = "30", ca_file: str = "") -> str:
    words = ("-r", PROGRAM, "--", url, str(calls), seconds, ca_file)
    return await asyncio.to_thread(output, *words)
