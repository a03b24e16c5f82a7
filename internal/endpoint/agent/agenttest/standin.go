package agenttest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"math/big"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

// The environment of a stand-in, and what it looks for.
const (
	// StandInAddress makes this test binary a stand-in for kube-apiserver, of which the endpoint sees
	// only this much: TLS on all addresses, and /readyz that fails from SIGTERM on while requests are
	// served.
	StandInAddress = "KUBE_STAND_IN_ADDRESS"
	// StandInName is what the stand-in answers.
	StandInName = "KUBE_STAND_IN_NAME"
	// NotReadyFile makes /readyz fail while it exists.
	NotReadyFile = "/run/stand-in.not-ready"
)

// StandInIfAsked never returns if the environment asks for the stand-in.
func StandInIfAsked() {
	address := os.Getenv(StandInAddress)
	if address == "" {
		return
	}
	if err := runStandIn(address, os.Getenv(StandInName)); err != nil && !errors.Is(err, http.ErrServerClosed) {
		panic(err)
	}
	os.Exit(0)
}

func runStandIn(address, name string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	var stopping atomic.Bool
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if _, err := os.Stat(NotReadyFile); stopping.Load() || !errors.Is(err, fs.ErrNotExist) {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, "ok")
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) })
	server := &http.Server{
		Addr: address, Handler: mux, ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		},
	}
	served := make(chan error, 1)
	go func() { served <- server.ListenAndServeTLS("", "") }()
	terminated, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	select {
	case err := <-served:
		return err
	case <-terminated.Done():
	}
	stopping.Store(true)
	time.Sleep(5 * time.Second) // --shutdown-delay-duration
	return server.Close()
}
