"""What people write into a field."""


def is_line(text: str, length_max: int) -> bool:
    """Not blank, not too long, and nothing that does not show on one line."""
    return bool(text.strip()) and len(text) <= length_max and text.isprintable()
