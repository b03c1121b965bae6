"""Disputes: a customer's bank takes a payment back, and the merchant accepts or contests it.

`dispute.py` has the statuses, the table of transitions and the record. The functions that other
packages call:

- `listing.disputes`, `listing.totals` with a `DisputeFilter`: the list. `SortOrder.DEADLINE` shows
  what ends first.
- `service.DisputeService` (`services.disputes`): `get`, `accept`, `set_evidence`, `add_file`,
  `remove_file`, `read_file`, `submit`, `evidence_fields`. Each takes the merchant's `Tenant`.
- `manual.record`: what an operator has seen at the provider. `manual.release`: the operator has
  reviewed an answer, or has sent it manually.
- `states.report`: what a provider reports. All changes of a dispute's status go through `states`.
- `store.dispute`, `store.files_of`, `store.refunds_beside`: records for pages.
"""
