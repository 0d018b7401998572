package main

import (
	"bytes"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
)

const smallBytes = 1024

// serveOrigin serves until its input ends: a small answer, large ones, and a place for uploads.
func serveOrigin(arguments []string) error {
	flags := flag.NewFlagSet("origin", flag.ExitOnError)
	plain := flags.String("http", "", "address for HTTP")
	secure := flags.String("https", "", "address for HTTPS")
	certificate := flags.String("certificate", "", "PEM file with the chain")
	key := flags.String("key", "", "PEM file with the key")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(*certificate, *key)
	if err != nil {
		return err
	}
	failed := make(chan error, 2)
	go func() { failed <- http.ListenAndServe(*plain, routes()) }()
	server := &http.Server{
		Addr:      *secure,
		Handler:   routes(),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}},
	}
	go func() { failed <- server.ListenAndServeTLS("", "") }()
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		failed <- err
	}()
	return <-failed
}

func routes() http.Handler {
	small := bytes.Repeat([]byte("x"), smallBytes)
	mux := http.NewServeMux()
	mux.HandleFunc("/small", func(answer http.ResponseWriter, _ *http.Request) {
		answer.Header().Set("Content-Length", strconv.Itoa(smallBytes))
		_, _ = answer.Write(small)
	})
	mux.HandleFunc("/bulk", func(answer http.ResponseWriter, request *http.Request) {
		size, err := strconv.ParseInt(request.URL.Query().Get("bytes"), 10, 64)
		if err != nil || size < 0 {
			http.Error(answer, "bytes is a number", http.StatusBadRequest)
			return
		}
		answer.Header().Set("Content-Length", strconv.FormatInt(size, 10))
		_, _ = io.CopyBuffer(writerOnly{answer}, io.LimitReader(zeros{}, size), make([]byte, 256*1024))
	})
	mux.HandleFunc("/sink", func(answer http.ResponseWriter, request *http.Request) {
		taken, _ := io.Copy(io.Discard, request.Body)
		fmt.Fprintln(answer, taken)
	})
	return mux
}

// writerOnly hides ReadFrom, which would copy through a small buffer of its own.
type writerOnly struct{ io.Writer }
