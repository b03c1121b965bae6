"""Checks that `make check` runs in addition to ruff, mypy and import-linter."""
