<?php

namespace App\Controller;

use Symfony\Component\HttpFoundation\Response;

class LuckyController
{
    public function home(): Response
    {
        return new Response('<html><body>Lucky number: 7</body></html>');
    }

    public function number(int $max): Response
    {
        return new Response("A number up to $max");
    }
}
