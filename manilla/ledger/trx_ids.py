"""Transaction ids, which consist of `TXN`, milliseconds, the merchant's id and random bits."""

from manilla.kit.ids import OWNER_MAX, TimedIds

MERCHANT_ID_MAX = OWNER_MAX

TRX_IDS = TimedIds("TXN", 1_000, 10)

# Ids of customers' accounts, which are also our references of them at providers.
ACCOUNT_IDS = TimedIds("ACC", 1_000, 10)
# Ids of saved ways to pay, which are also our references of mandates at providers.
WAY_IDS = TimedIds("WAY", 1_000, 10)

new, merchant_of = TRX_IDS.new, TRX_IDS.owner_of
# A transaction's creation time is the time in its id, so ids sort by creation time.
new_with_time = TRX_IDS.new_with_time
floor, moment_of = TRX_IDS.floor, TRX_IDS.moment_of
