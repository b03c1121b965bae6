"""Saved ways to pay: cards and mandates that a merchant charges without the customer.

`way.py` has the statuses, the table of transitions and the record. What other packages call:

- `saving.CardSaving`: checkout's consent, and the card of a paid charge.
- `charging.WayCharges` (`services.way_charges`): charges a way again, as an ordinary payment with
  one charge, which `payments.states` credits or declines as any other.
- `mandates.MandateService`: creates mandates and follows their status.
- `revoking`: ends ways, for merchants, customers, and the erasure of personal data.
- `declines.RULES`: the documented table of declines.
"""
