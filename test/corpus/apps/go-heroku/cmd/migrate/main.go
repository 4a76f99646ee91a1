package main

func main() { println("nothing to migrate") }
