import re

from manilla.kit import ids


def test_keys_are_long_and_alphanumeric() -> None:
    assert re.fullmatch(r"test_[0-9a-z]{32}", ids.new_key("test_"))
