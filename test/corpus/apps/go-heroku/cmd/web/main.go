package main

import (
	"net/http"
	"os"

	"github.com/example/shop/v2/internal/pages"
)

func main() {
	http.Handle("/", pages.Home("the Procfile"))
	if err := http.ListenAndServe(":"+os.Getenv("PORT"), nil); err != nil {
		panic(err)
	}
}
