<?php

namespace Symfony\Component\DependencyInjection\Loader\Configurator;

return static function (ContainerConfigurator $container) {
    $container->extension('framework', ['secret' => '%env(APP_SECRET)%', 'http_method_override' => false]);
};
