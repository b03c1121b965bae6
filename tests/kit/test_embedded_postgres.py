"""Prepares a folder for the embedded PostgreSQL server, even after an interrupted start."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from manilla.kit.embedded import configuration, postgres
from manilla.kit.embedded.postgres import Cluster, PostgresRefusal
from tests.support.rows import first_short


@pytest.fixture(scope="module")
def initialized(tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    return postgres.prepare(tmp_path_factory.mktemp("embedded"))


@pytest.fixture
def prepared(initialized: Cluster) -> Iterator[Cluster]:
    """A database cluster that never ran. Its configuration files are restored after the test."""
    files = [initialized.folder / f"postgresql{name}.conf" for name in ("", ".auto")]
    before = [file.read_bytes() for file in files]
    yield initialized
    for file, content in zip(files, before, strict=True):
        file.write_bytes(content)


def prepare(prepared: Cluster) -> Cluster:
    return postgres.prepare(prepared.folder.parent)


def append(file: Path, line: str) -> None:
    with file.open("a") as opened:
        opened.write(f"\n{line}\n")


@pytest.mark.skipif(
    os.geteuid() != 0, reason="PostgreSQL runs as another user only if root starts it"
)
def test_the_servers_account_can_read_the_settings_whatever_the_umask(prepared: Cluster) -> None:
    assert prepared.account is not None
    before = os.umask(0o777)
    try:
        prepare(prepared)
    finally:
        os.umask(before)
    status = (prepared.folder / configuration.NAME).stat()
    assert (status.st_uid, status.st_mode & 0o777) == (prepared.account.uid, 0o600)


def test_a_link_in_the_servers_folder_is_replaced_and_not_followed(
    prepared: Cluster, tmp_path: Path
) -> None:
    target = tmp_path / "file of another account"
    target.write_text("untouched")
    for name in (configuration.NAME, f"{configuration.NAME}.part"):
        (prepared.folder / name).unlink(missing_ok=True)
        (prepared.folder / name).symlink_to(target)
    prepare(prepared)
    assert target.read_text() == "untouched"
    assert (prepared.folder / configuration.NAME).read_text() == configuration.CONFIGURATION


def test_a_cluster_of_an_earlier_version_is_used_as_it_is(prepared: Cluster) -> None:
    file = prepared.folder / "postgresql.conf"
    earlier = file.read_text().replace("\ninclude = ", "\ninclude_if_exists = ")
    assert "include_if_exists = 'manilla.conf'" in earlier
    file.write_text(earlier)
    prepare(prepared)
    assert file.read_text() == earlier


def test_the_settings_are_included_again_if_they_were_not(prepared: Cluster) -> None:
    file = prepared.folder / "postgresql.conf"
    file.write_text(file.read_text().replace("\ninclude = 'manilla.conf'\n", ""))
    prepare(prepared)
    assert file.read_text().endswith("\ninclude = 'manilla.conf'\n")


@pytest.mark.parametrize("override", ["port = 6543", "unix_socket_directories = '/tmp'"])
@pytest.mark.parametrize("name", first_short(["postgresql.conf", "postgresql.auto.conf"]))
def test_a_server_that_would_not_use_our_socket_is_refused_before_it_starts(
    prepared: Cluster, name: str, override: str
) -> None:
    append(prepared.folder / name, override)
    with pytest.raises(PostgresRefusal, match=override.replace("= 6543", "= '6543'")):
        prepare(prepared)


def test_a_second_socket_is_allowed(prepared: Cluster) -> None:
    append(prepared.folder / "postgresql.auto.conf", "unix_socket_directories = '., /tmp'")
    prepare(prepared)


def test_settings_that_postgresql_cannot_read_are_named_before_it_starts(
    prepared: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    (prepared.folder / configuration.NAME).unlink()
    monkeypatch.setattr(configuration, "write", lambda folder, account: None)
    with pytest.raises(PostgresRefusal, match=r"manilla\.conf"):
        prepare(prepared)


def test_an_interrupted_initialization_is_repeated(prepared: Cluster, tmp_path: Path) -> None:
    """Simulates a SIGKILL during initdb: the password file exists, the include line does not."""
    folder = tmp_path / "postgres"
    shutil.copytree(prepared.folder, folder, symlinks=True)
    (folder / "postgresql.conf").write_text("")
    (folder / "base" / "half").write_text("written before")
    (tmp_path / "initdb.password").touch()
    again = postgres.prepare(tmp_path)
    assert not (tmp_path / "initdb.password").exists()
    assert not (again.folder / "base" / "half").exists()
    assert configuration.is_included(again.folder)


def test_a_complete_cluster_is_kept_if_only_the_password_file_was_left(prepared: Cluster) -> None:
    """Simulates a SIGKILL just before the deletion of the password file."""
    (prepared.folder.parent / "initdb.password").touch()
    (prepared.folder / "base" / "kept").write_text("")
    prepare(prepared)
    assert (prepared.folder / "base" / "kept").exists()
    assert not (prepared.folder.parent / "initdb.password").exists()
