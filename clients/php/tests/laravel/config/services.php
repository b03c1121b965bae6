<?php

return ['shop' => ['secret' => env('SHOP_SECRET')]];
