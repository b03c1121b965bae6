"""The development distribution: simulated providers A, B and C, the demo merchant and the demo
shop.
"""

__version__ = "0.2.0"  # the same as the platform's
