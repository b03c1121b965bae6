"""Runs the `manilla` command, or a program of an installation, with `python -m manilla`."""

import sys

from manilla import program

if program.MARK in sys.argv[2:3]:
    program.main()
else:
    from manilla.cli.main import main

    main()
