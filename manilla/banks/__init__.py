"""The registry of Nigerian banks, with the code and name that each provider account uses."""
