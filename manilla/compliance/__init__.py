"""Dossiers: the information that merchants submit for approval, and the operator's decisions."""
