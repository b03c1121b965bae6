"""Splits SQL scripts into statements, and statements into parts."""

import re

_TOKEN = re.compile(
    r"""(?P<skipped>\s+|--[^\n]*|/\*.*?\*/)
      | (?P<literal>E'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)
      | (?P<word>"[^"]+"|\w+)
      | (?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)


def statements(sql: str) -> list[str]:
    """Splits SQL into statements, in a form that is easy to compare.

    A statement is in lower case, without comments and without the schema `public`. Each literal is
    written as ''.
    """
    found: list[list[str]] = [[]]
    for token in _TOKEN.finditer(sql):
        if token["mark"] == ";":
            found.append([])
        elif token["literal"]:
            found[-1].append("''")
        elif not token["skipped"]:
            found[-1].append(token[0].lower())
    return [" ".join(tokens).replace("public . ", "") for tokens in found if tokens]


def split_actions(actions: str) -> list[str]:
    """Splits the actions of ALTER TABLE, at the commas that are not in parentheses."""
    parts, depth = [""], 0
    for word in actions.split(" "):
        depth += (word == "(") - (word == ")")
        if word == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] = f"{parts[-1]} {word}".lstrip()
    return parts
