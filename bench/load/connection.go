package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

const patience = 30 * time.Second

// opener prepares connections to a target.
func opener(target Target) (func() (client, error), error) {
	config, err := tlsConfig(target)
	if err != nil {
		return nil, err
	}
	return func() (client, error) {
		raw, err := net.DialTimeout("tcp", target.Dial, patience)
		if err != nil {
			return nil, err
		}
		one, err := overConnection(raw, target, config)
		if err != nil {
			raw.Close()
		}
		return one, err
	}, nil
}

func overConnection(raw net.Conn, target Target, config *tls.Config) (client, error) {
	if target.Via == "connect" {
		if err := tunnel(raw, target); err != nil {
			return nil, err
		}
	}
	if config == nil {
		return newHTTP1(raw, target), nil
	}
	secure := tls.Client(raw, config)
	if err := secure.Handshake(); err != nil {
		return nil, err
	}
	if target.HTTP2 {
		if got := secure.ConnectionState().NegotiatedProtocol; got != "h2" {
			return nil, fmt.Errorf("ALPN chose %q", got)
		}
		return newHTTP2(secure, target)
	}
	return newHTTP1(secure, target), nil
}

func tlsConfig(target Target) (*tls.Config, error) {
	if target.TLS == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(target.TLS)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", target.TLS)
	}
	protocol := "http/1.1"
	if target.HTTP2 {
		protocol = "h2"
	}
	return &tls.Config{RootCAs: roots, ServerName: target.Name, NextProtos: []string{protocol}}, nil
}

func tunnel(raw net.Conn, target Target) error {
	authority := fmt.Sprintf("%s:%d", target.Name, target.Port)
	if _, err := fmt.Fprintf(raw, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", authority, authority); err != nil {
		return err
	}
	// One byte at a time: what follows the head belongs to the tunnel.
	var head strings.Builder
	one := make([]byte, 1)
	for !strings.HasSuffix(head.String(), "\r\n\r\n") {
		if _, err := raw.Read(one); err != nil {
			return err
		}
		head.Write(one)
	}
	fields := strings.Fields(head.String())
	if len(fields) < 2 || fields[1] != "200" {
		line, _, _ := strings.Cut(head.String(), "\r\n")
		return fmt.Errorf("CONNECT: %s", line)
	}
	return nil
}

func newReader(connection net.Conn) *bufio.Reader {
	return bufio.NewReaderSize(connection, 64*1024)
}
