<!DOCTYPE html>
<html lang="{{ str_replace('_', '-', app()->getLocale()) }}">
    <head>
        <meta charset="utf-8">
        <title>{{ config('app.name') }}</title>
    </head>
    <body>
        <h1>Welcome to {{ config('app.name') }}</h1>
    </body>
</html>
