<?php

use App\Controller\LuckyController;
use Symfony\Component\Routing\Loader\Configurator\RoutingConfigurator;

return static function (RoutingConfigurator $routes) {
    $routes->add('home', '/')->controller([LuckyController::class, 'home']);
    $routes->add('number', '/lucky/{max}')->controller([LuckyController::class, 'number']);
};
