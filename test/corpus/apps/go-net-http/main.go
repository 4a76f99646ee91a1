package main

import (
	"fmt"
	"log"
	"net/http"
	"os"
)

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "Hello from Go at %s\n", r.URL.Path)
	})
	log.Fatal(http.ListenAndServe(":"+os.Getenv("PORT"), nil))
}
