"""Who changed what: written with the change, chained, and never rewritten."""
