<?php
function greeting(string $name): string
{
    return "Hello from $name";
}
