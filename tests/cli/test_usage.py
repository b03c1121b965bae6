"""Wrong arguments are described in one line, without the terms of Python or of a library."""

import re

import pytest

from tests.support.command import manilla

ENVIRONMENTS = "'sandbox', 'production'"
FUND = "wallet fund 1 NGN {} --reason x --environment sandbox"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("paymen", "No such command 'paymen'. Did you mean 'payment'?"),
        ("payment lst", "No such command 'lst'. Did you mean 'list'?"),
        ("--nothing", "No such option: --nothing."),
        ("payment list --nothing", "No such option: --nothing."),
        ("--data", "Option '--data' requires an argument."),
        ("payout list --merchant", "Option '--merchant' requires an argument."),
        ("payment show", "Missing argument 'TRX'."),
        ("merchant show 1 2", "Got unexpected extra argument(s) (2)."),
        ("merchant rotate 1", "Missing option '--environment'. Choose from: sandbox, production."),
        ("merchant rotate 1 --environment mars", f"'mars' is not one of {ENVIRONMENTS}."),
        ("payment list --environment mars", f"'mars' is not one of {ENVIRONMENTS}."),
        ("merchant show abc", "Invalid value for 'ID': 'abc' is not a whole number."),
        ("up --port 3.5", "Invalid value for '--port': '3.5' is not a whole number."),
        ("up --port 65536", "Invalid value for '--port': 65536 is greater than 65535."),
        (f"merchant show {'9' * 5000}", "has too many digits."),
        ("ipn list --limit 0", "Invalid value for '--limit': 0 is less than 1."),
        ("merchant set 1 --commission-percent {}", "“{}” is not a number."),
        ("settle {x} providera 1", "'{x}' is not one of 'top_up', "),
        (FUND.format("abc"), "Invalid value for AMOUNT: “abc” is not an amount."),
        ("prove --out x --date 2026", "'--date': '2026' is not a day such as 2026-01-31."),
        ("prove --out x --expect 1", "Invalid value for '--expect': '1' is not NUMBER:HASH."),
        ("audit verify --kept 1", "Invalid value for '--kept': '1' is not last_id:last_hash."),
        ("ipn redeliver --failed-since soon", "'--failed-since': 'soon' is not a time: use 2h, "),
    ],
)
def test_wrong_arguments_are_described_in_one_line(words: str, says: str) -> None:
    # Wrong arguments are found before an instance is needed, except for amounts.
    run = manilla(*words.split(), MANILLA_DATABASE_URL="postgresql://127.0.0.1:1/none")
    [line] = run.stderr.splitlines()
    assert (run.returncode, run.stdout) == (2, "")
    assert line.startswith("manilla: ")
    assert says in line
    assert not re.search(r"Error|Input|valid integer|str\b|int\b|<", line)


def test_a_group_without_a_command_shows_its_commands() -> None:
    run = manilla("ledger")
    assert run.returncode == 2
    assert "Commands:" in run.stderr
