"""The two environments, `sandbox` and `production`. Data of one never mixes with the other's."""

from enum import StrEnum


class Environment(StrEnum):
    SANDBOX = "sandbox"
    PRODUCTION = "production"
