"""Commands that start the programs of an installation."""
