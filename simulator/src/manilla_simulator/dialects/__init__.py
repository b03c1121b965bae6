"""The contracts of the simulated providers, each as its provider speaks it on the wire."""
