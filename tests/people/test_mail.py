"""Only links for users are passed to the operator's mail program."""

import asyncio
import json
from pathlib import Path

import pytest

from manilla.people.mail import Email, Mailer, MailKind

LETTER = Email(MailKind.RESET, "ada@example.com", "https://pay.example.com/dashboard/reset/abc")


def program(folder: Path, script: str) -> str:
    file = folder / "hook"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o700)
    return str(file)


async def test_the_mail_program_gets_one_document_and_no_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MANILLA_MASTER_KEY", "secret")
    hook = program(tmp_path, f"cat > {tmp_path}/got; env > {tmp_path}/env")
    post = Mailer(hook)
    assert post.is_open
    post.send_later(LETTER)
    await post.close()
    assert json.loads((tmp_path / "got").read_text()) == {
        "kind": "reset",
        "email": "ada@example.com",
        "link": "https://pay.example.com/dashboard/reset/abc",
    }
    assert "MANILLA_" not in (tmp_path / "env").read_text()


async def test_response_time_does_not_reveal_whether_a_mail_is_sent(tmp_path: Path) -> None:
    """Otherwise the response time would reveal who has an account."""
    post, has_answered = Mailer(program(tmp_path, f"cat >> {tmp_path}/got")), asyncio.Event()

    async def to_who_is_known() -> Email:
        await has_answered.wait()
        return LETTER

    async def to_nobody() -> None:
        await has_answered.wait()

    post.write_later(MailKind.RESET, to_who_is_known)
    post.write_later(MailKind.RESET, to_nobody)
    has_answered.set()
    await post.close()
    assert json.loads((tmp_path / "got").read_text())["email"] == LETTER.email


async def test_a_mail_program_that_fails_hangs_or_is_missing_is_tolerated(tmp_path: Path) -> None:
    assert not await Mailer(program(tmp_path, "exit 3")).send(LETTER)
    assert not await Mailer(program(tmp_path, "exec sleep 60"), timeout_seconds=0.2).send(LETTER)
    assert not await Mailer(str(tmp_path / "missing")).send(LETTER)
    closed = Mailer(None)
    closed.send_later(LETTER)
    assert (closed.is_open, await closed.send(LETTER)) == (False, False)
