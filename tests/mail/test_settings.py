"""The mail server's variables are validated at start, and errors never reveal the password."""

import pytest

from manilla.mail.server import BadMailSetting, Sender, read_sender, read_server


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("smtp+starttls://relay:p%40ss@smtp.example.com", "smtp+starttls://smtp.example.com:587"),
        ("smtps://relay:p%40ss@smtp.example.com:2465/", "smtps://smtp.example.com:2465"),
        ("smtp://localhost", "smtp://localhost:25"),
        ("smtp://[::1]:2525", "smtp://::1:2525"),
    ],
)
def test_a_mail_server_is_read_and_shown_without_its_password(url: str, shown: str) -> None:
    server = read_server(url, is_development=False)
    assert (repr(server), str(server)) == (shown, shown)
    assert server.password == ("p@ss" if "%40" in url else None)


@pytest.mark.parametrize(
    "url",
    [
        "smtp.example.com",
        "https://relay:secret@smtp.example.com",
        "smtps://relay:secret@",
        "smtps://relay:secret@smtp.example.com:port",
        "smtps://relay:secret@smtp.example.com/?verify=no",
        "smtps://relay@smtp.example.com",
        "smtp://relay:secret@smtp.example.com",
    ],
)
def test_a_malformed_or_unencrypted_mail_server_is_rejected(url: str) -> None:
    with pytest.raises(BadMailSetting) as problem:
        read_server(url, is_development=False)
    assert "secret" not in str(problem.value)


def test_an_unencrypted_mail_server_is_possible_in_development_mode() -> None:
    assert read_server("smtp://mail.test:1025", is_development=True).port == 1025


def test_the_sender_is_read_or_made_from_the_base_url() -> None:
    base_url = "https://pay.example.com"
    assert read_sender("", base_url) == Sender("no-reply@pay.example.com")
    assert read_sender("Ada's Pay <pay@example.com>", base_url) == Sender(
        "pay@example.com", "Ada's Pay"
    )
    for bad in ("pay", "Pay <pay@>", "Pay <pay@example.com>\nBcc: a@b.c"):
        with pytest.raises(BadMailSetting):
            read_sender(bad, base_url)
