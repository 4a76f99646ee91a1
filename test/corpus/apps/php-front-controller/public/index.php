<?php

declare(strict_types=1);

require dirname(__DIR__) . '/vendor/autoload.php';

echo (new App\Kernel())->handle($_SERVER['REQUEST_URI'], $_SERVER['SCRIPT_NAME']);
