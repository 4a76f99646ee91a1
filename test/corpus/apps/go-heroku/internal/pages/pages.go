package pages

import "net/http"

func Home(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("Started by " + name))
	})
}
