"""The addresses at which tokens are used."""

from manilla.people.roles import Realm


def invitation(base_url: str, realm: Realm, token: str) -> str:
    return f"{base_url}/{realm}/invitation/{token}"


def reset(base_url: str, realm: Realm, token: str) -> str:
    return f"{base_url}/{realm}/reset/{token}"
