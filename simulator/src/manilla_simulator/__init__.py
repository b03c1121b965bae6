"""The development distribution: simulated providers, the demo merchant and the demo shop.

The providers are A, B and C, and the dialects of Paystack, Kora, Monnify and Flutterwave.
"""

__version__ = "0.3.0"  # the same as the platform's
