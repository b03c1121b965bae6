"""The database URLs in the example environment files work after the placeholders are replaced."""

import datetime
import ipaddress
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from manilla.kit import crypto
from manilla.kit.database.connections import UnusableDatabase, connect
from manilla.kit.errors import Unavailable
from manilla.settings import Mode, Settings
from tests.support.instance import free_port

FOLDER = Path("deploy/systemd")


def _variables(*files: Path) -> dict[str, str]:
    """Returns the variables in the file, parsed like systemd parses them."""
    lines = [line for file in files for line in file.read_text().splitlines()]
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


@pytest.fixture
def urls(project: Path) -> list[str]:
    folder = project / FOLDER
    variables = _variables(folder / "manilla.env.example", folder / "migrate.env.example")
    assert variables["MANILLA_MASTER_KEY"] == ""
    variables["MANILLA_MASTER_KEY"] = crypto.generate_key()
    settings = Settings.read(variables, assumed_mode=Mode.PRODUCTION)
    assert settings.mode is Mode.PRODUCTION
    return [settings.database_url, settings.migration_url]


def _on(url: str, host: str) -> str:
    return re.sub(r"@[^/]+/", f"@{host}/", url)


@pytest.fixture(autouse=True)
def _a_system_user_has_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/nonexistent")


async def test_the_urls_are_valid_up_to_the_connection(urls: list[str]) -> None:
    for url in urls:
        with pytest.raises(Unavailable) as refused:
            await connect(_on(url, f"127.0.0.1:{free_port()},localhost:{free_port()}"))
        assert "Connect call failed" in refused.value.facts["cause"]


async def test_a_url_without_certificates_is_rejected_with_the_reason(urls: list[str]) -> None:
    for url in urls:
        bare = _on(url, f"127.0.0.1:{free_port()}").replace("&sslrootcert=system", "")
        with pytest.raises(UnusableDatabase, match="root certificate"):
            await connect(bare)
        with pytest.raises(UnusableDatabase, match=r"cannot read .*/nowhere\.crt"):
            await connect(f"{bare}&sslrootcert=/nowhere.crt")


class Server:
    """A TLS server with its own certificate authority that rejects all PostgreSQL logins."""

    def __init__(self, folder: Path) -> None:
        self.certificate = folder / "certificate.pem"
        key = _write_certificate(self.certificate, folder / "key.pem")
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(self.certificate, key)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.heard: list[bytes] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            with plain:
                plain.settimeout(10)
                plain.recv(8)  # the client's request for TLS
                plain.sendall(b"S")
                try:
                    with self._context.wrap_socket(plain, server_side=True) as secure:
                        self.heard.append(secure.recv(1024))
                except OSError:  # The client does not trust the server's certificate.
                    continue

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)


def _write_certificate(certificate: Path, key: Path) -> Path:
    secret = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a database")])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(secret.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(secret, hashes.SHA256())
    )
    certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    key.write_bytes(
        secret.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return key


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path)
    yield server
    server.close()


async def test_the_system_certificates_are_trusted_by_default(
    urls: list[str], server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for url in urls:
        with pytest.raises(Unavailable) as refused:
            await connect(_on(url, server.host))
        assert "certificate verify failed" in refused.value.facts["cause"]
    assert server.heard == []
    monkeypatch.setenv("SSL_CERT_FILE", str(server.certificate))
    for url in urls:
        with pytest.raises(Unavailable):
            await connect(_on(url, server.host))
    assert [b"manilla" in each for each in server.heard] == [True, True]


async def test_a_certificate_file_is_trusted_instead(urls: list[str], server: Server) -> None:
    for url in urls:
        named = url.replace("sslrootcert=system", f"sslrootcert={server.certificate}")
        with pytest.raises(Unavailable):
            await connect(_on(named, server.host))
    assert [b"manilla" in each for each in server.heard] == [True, True]
