"""The URL paths of the pages to which emails link."""

from manilla.people.roles import Realm


def invitation(realm: Realm, token: str) -> str:
    return f"/{realm}/invitation/{token}"


def reset(realm: Realm, token: str) -> str:
    return f"/{realm}/reset/{token}"


def account(realm: Realm) -> str:
    return f"/{realm}/account"
