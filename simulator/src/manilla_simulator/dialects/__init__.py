"""The simulated providers' APIs: one module or package for each."""
