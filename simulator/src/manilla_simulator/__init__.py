"""The development package: simulated providers, the demo merchant and the demo shop.

The simulated providers are A, B and C, and the APIs of Paystack, Kora, Monnify and Flutterwave.
"""

__version__ = "0.19.0"  # The simulator has the same version number as the platform.
