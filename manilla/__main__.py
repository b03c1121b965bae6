"""Runs the `manilla` command with `python -m manilla`."""

from manilla.cli.main import main

main()
