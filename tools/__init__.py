"""Checks that `make check` runs beside ruff, mypy and import-linter."""
