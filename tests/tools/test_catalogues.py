"""The check of the translations finds what is missing, wrong or out of date."""

import re
import shutil
from pathlib import Path

import pytest

from manilla.checkout import rendering
from manilla.languages.language import CATALOGUES
from tools import catalogues

FRENCH = "Paiement réussi"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copied = tmp_path / "catalogues"
    shutil.copytree(CATALOGUES, copied)
    monkeypatch.setattr(catalogues, "CATALOGUES", copied)
    return copied


def run(monkeypatch: pytest.MonkeyPatch, *options: str) -> int:
    monkeypatch.setattr("sys.argv", ["tools.catalogues", *options])
    with pytest.raises(SystemExit) as ended:
        catalogues.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def change(folder: Path, old: str, new: str) -> None:
    file = folder / "fr.po"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_every_text_has_a_translation(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--check") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[1].split(" of ")[0] for line in lines] == ["0"] * 5


def test_a_missing_text_is_listed_and_does_not_fail(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    change(folder, f'msgstr "{FRENCH}"', 'msgstr ""')
    assert run(monkeypatch) == 0
    assert run(monkeypatch, "--check", "--missing") == 0
    assert "  Payment successful\n" in capsys.readouterr().out


def test_a_catalogue_that_is_not_compiled_is_out_of_date(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(folder, FRENCH, "Paiement accepté")
    assert run(monkeypatch, "--check") == 1
    assert run(monkeypatch) == 0
    assert run(monkeypatch, "--check") == 0


def test_a_catalogue_without_a_new_text_is_out_of_date(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(folder, 'msgid "Payment successful"', 'msgid "Payment was successful"')
    assert run(monkeypatch, "--check") == 1


@pytest.mark.parametrize("wrong", ["%(merchand)s", "<b>%(merchant)s</b>", ""])
def test_a_translation_keeps_placeholders_and_tags(
    folder: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    change(
        folder,
        '"<bdi>%(merchant)s</bdi> a reçu votre paiement."',
        f'"{wrong} a reçu votre paiement."',
    )
    assert run(monkeypatch) == 1


def test_a_language_can_be_added(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, "--add", "ar") == 0
    assert "nplurals=6" in (folder / "ar.po").read_text()
    assert (folder / "ar.mo").exists()


def test_pages_contain_the_texts_of_the_scripts() -> None:
    scripts = "".join(file.read_text() for file in rendering.STATIC.glob("*.js"))
    used = re.findall(r'translated\("([^"]+)"\)', scripts)
    assert set(used) == set(rendering.SCRIPT_TEXTS)
