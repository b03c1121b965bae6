"""The development distribution: simulated providers A, B and C, the demo merchant and the demo
shop.
"""
