"""The providers: one port, three implementations, and no answer that is a guess."""
