"""Dossiers: what merchants submit about their business, and the operator's decisions."""
