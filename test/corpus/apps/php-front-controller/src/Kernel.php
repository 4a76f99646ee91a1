<?php

declare(strict_types=1);

namespace App;

final class Kernel
{
    public function handle(string $uri, string $script): string
    {
        return "Routed $uri by $script";
    }
}
