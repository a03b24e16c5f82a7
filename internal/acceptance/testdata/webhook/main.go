// Command webhook is a validating admission webhook: it denies objects whose name begins with
// "denied-", and allows all others. It serves TLS with the certificate and key in its working directory.
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
	server := http.Server{Addr: os.Args[1], ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(answer)}
	log.Fatal(server.ListenAndServeTLS("tls.crt", "tls.key"))
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
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(review{APIVersion: in.APIVersion, Kind: in.Kind, Response: &out}); err != nil {
		log.Print(err)
	}
}
