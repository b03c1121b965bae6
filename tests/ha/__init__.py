"""Runs the cluster of `deploy/ha` and Manilla on this machine, and disrupts the cluster."""
