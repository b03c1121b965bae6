"""`python -m manilla` is the `manilla` command."""

from manilla.cli.main import main

main()
