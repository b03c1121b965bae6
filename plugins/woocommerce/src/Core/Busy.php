<?php

declare(strict_types=1);

namespace ManillaForWooCommerce\Core;

final class Busy extends \RuntimeException
{
}
