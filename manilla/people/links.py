"""URLs that are emailed to users."""

from manilla.kit.environment import Environment
from manilla.people.roles import Realm


def invitation(base_url: str, realm: Realm, token: str) -> str:
    return f"{base_url}/{realm}/invitation/{token}"


def reset(base_url: str, realm: Realm, token: str) -> str:
    return f"{base_url}/{realm}/reset/{token}"


def credentials(base_url: str, environment: Environment) -> str:
    return f"{base_url}/{Realm.DASHBOARD}/{environment}/credentials"
