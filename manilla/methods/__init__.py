"""The methods of paying in and out: data that an administrator keeps, and what may be offered."""
