"""Runs the `manilla` command, or one of its server programs, with `python -m manilla`."""

import sys

from manilla import program

if program.MARK in sys._xoptions:
    program.main()
else:
    from manilla.cli.main import main

    main()
