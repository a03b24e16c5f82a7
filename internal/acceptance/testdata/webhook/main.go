// Command webhook is a validating admission webhook: it denies objects whose name begins with
// "denied-", and allows all others. It is an aggregated API too: its resource says who asks for which object.
// It serves TLS with the certificate and key in its working directory.
package main

import (
	"encoding/json"
	"log"
	"net/http"
	"os"
	"strings"
	"time"
)

type review struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Request    *struct {
		UID  string `json:"uid"`
		Name string `json:"name"`
	} `json:"request,omitempty"`
	Response *response `json:"response,omitempty"`
}

type response struct {
	UID     string            `json:"uid"`
	Allowed bool              `json:"allowed"`
	Status  map[string]string `json:"status,omitempty"`
}

func main() {
	server := http.Server{Addr: os.Args[1], ReadHeaderTimeout: time.Minute, Handler: handler()}
	log.Fatal(server.ListenAndServeTLS("tls.crt", "tls.key"))
}

// group is the path of the aggregated API.
const group = "/apis/tunnel.example.com/v1"

func handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", answer)
	mux.HandleFunc("GET "+group, func(w http.ResponseWriter, _ *http.Request) {
		write(w, map[string]any{
			"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "tunnel.example.com/v1",
			"resources": []any{map[string]any{
				"name": "echoes", "singularName": "echo", "kind": "Echo", "verbs": []string{"get"}, "namespaced": false,
			}},
		})
	})
	mux.HandleFunc("GET "+group+"/echoes/{name}", func(w http.ResponseWriter, r *http.Request) {
		write(w, map[string]any{
			"kind": "Echo", "apiVersion": "tunnel.example.com/v1", "metadata": map[string]any{"name": r.PathValue("name")},
			"user": r.Header.Get("X-Remote-User"),
		})
	})
	return mux
}

func write(w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(object); err != nil {
		log.Print(err)
	}
}

func answer(w http.ResponseWriter, r *http.Request) {
	var in review
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Request == nil {
		http.Error(w, "not a review", http.StatusBadRequest)
		return
	}
	out := response{UID: in.Request.UID, Allowed: !strings.HasPrefix(in.Request.Name, "denied-")}
	if !out.Allowed {
		out.Status = map[string]string{"message": "denied by the webhook behind the tunnel"}
	}
	write(w, review{APIVersion: in.APIVersion, Kind: in.Kind, Response: &out})
}
