<?php

declare(strict_types=1);

namespace ManillaForWooCommerce\Core;

enum RefundState: string
{
    case Sending = 'sending'; // stored before the call; the API's answer is not known
    case Recording = 'recording'; // made in Manilla, and not yet noted in the shop
    case Pending = 'pending';
    case Success = 'success';
    case Failed = 'failed';
    case Rejected = 'rejected'; // the refund does not exist
}
