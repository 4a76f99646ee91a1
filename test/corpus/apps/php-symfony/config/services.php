<?php

namespace Symfony\Component\DependencyInjection\Loader\Configurator;

return static function (ContainerConfigurator $container) {
    $services = $container->services()->defaults()->autowire()->autoconfigure();
    $services->load('App\\', '../src/')->exclude('../src/Kernel.php');
    $services->load('App\\Controller\\', '../src/Controller/')->tag('controller.service_arguments');
};
