"""The form for refunds, which dashboard and console share."""
