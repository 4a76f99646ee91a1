<?php

use App\Kernel;
use Symfony\Component\HttpFoundation\Request;

// The framework is Debian's: php-symfony-framework-bundle.
require '/usr/share/php/Symfony/Bundle/FrameworkBundle/autoload.php';
require dirname(__DIR__).'/vendor/autoload.php';

$kernel = new Kernel($_SERVER['APP_ENV'] ?? 'dev', (bool) ($_SERVER['APP_DEBUG'] ?? true));
$request = Request::createFromGlobals();
$response = $kernel->handle($request);
$response->send();
$kernel->terminate($request, $response);
