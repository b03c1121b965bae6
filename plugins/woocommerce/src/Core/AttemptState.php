<?php

declare(strict_types=1);

namespace ManillaForWooCommerce\Core;

/** What the shop knows about a payment. Money can arrive after a payment has failed or was canceled. */
enum AttemptState: string
{
    case Starting = 'starting'; // stored before the call; the API's answer is not known
    case Open = 'open';
    case Paid = 'paid'; // this payment has paid the order
    case Extra = 'extra'; // successful, but another payment has paid the order
    case Failed = 'failed';
    case Canceled = 'canceled';
    case Rejected = 'rejected'; // the payment does not exist

    public function isSuccessful(): bool
    {
        return $this === self::Paid || $this === self::Extra;
    }
}
