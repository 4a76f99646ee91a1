<?php

namespace App\Http\Controllers;

use Illuminate\Routing\Controller;

class GreetingController extends Controller
{
    public function show(string $name)
    {
        return response()->json(['greeting' => "Hello, $name"]);
    }
}
