"""The simulated providers' APIs, with one module or package for each provider."""
