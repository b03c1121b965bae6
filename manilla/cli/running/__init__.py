"""Commands that start the programs of an installation, and show whether it can go live."""
