"""The registry of Nigerian banks, with their codes and names at each provider account."""
