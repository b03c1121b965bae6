<?php

declare(strict_types=1);

namespace ManillaForWooCommerce\Core;

final class Config
{
    public function __construct(
        public readonly string $environment,
        public readonly string $prefix, // of references, different for each shop of a merchant
        public readonly string $ipn_url,
        public readonly ?string $scenario = null,
    ) {
    }
}
