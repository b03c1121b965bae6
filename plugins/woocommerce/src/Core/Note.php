<?php

declare(strict_types=1);

namespace ManillaForWooCommerce\Core;

/** What the shop writes on an order for its staff. The shop translates these. */
enum Note
{
    case Paid; // trx_id, amount
    case PaidInSandbox; // trx_id, amount
    case PaidAfterCancellation; // trx_id
    case PaidTwice; // trx_id, amount
    case TotalChanged; // trx_id, paid amount, total
    case Failed; // reason
    case OtherAmountReceived; // trx_id, received amount
    case RefundStarted; // refund's trx_id, amount
    case RefundDone; // refund's trx_id, amount
    case RefundFailed; // refund's trx_id, amount
    case RefundUnknown; // amount
    case RefundNeverSent; // amount
    case RefundMadeInManilla; // refund's trx_id, amount
    case ExtraRefunded; // refund's trx_id, amount
    case CreditReturned; // refund's trx_id, amount
}
