"""The two environments, `sandbox` and `production`, whose data never mixes."""

from enum import StrEnum


class Environment(StrEnum):
    SANDBOX = "sandbox"
    PRODUCTION = "production"
