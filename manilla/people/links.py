"""Paths of pages that emails link to."""

from manilla.people.roles import Realm


def invitation(realm: Realm, token: str) -> str:
    return f"/{realm}/invitation/{token}"


def reset(realm: Realm, token: str) -> str:
    return f"/{realm}/reset/{token}"


def account(realm: Realm) -> str:
    return f"/{realm}/account"
