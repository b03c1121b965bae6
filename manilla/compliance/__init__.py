"""Business verification: what merchants submit for approval, and the operator's decisions."""
