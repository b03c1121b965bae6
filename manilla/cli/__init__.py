"""The `manilla` command line, for operators."""
