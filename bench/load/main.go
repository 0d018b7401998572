// Command load puts load on a forward proxy, or on an origin directly, and prints what it measured
// as one line of JSON. It also serves the origin that is measured against.
//
// The clients are small on purpose: they share the machine with what they measure.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"
)

// Target says where requests go and how.
type Target struct {
	// Via is direct, absolute (absolute-form requests to a proxy) or connect (a tunnel through one).
	Via string
	// Dial is the address of the proxy, or of the origin if Via is direct.
	Dial string
	// Name is the host in requests and in the TLS handshake, with its port.
	Name string
	Port int
	// TLS is empty for HTTP in the clear, else the file with the authority to trust.
	TLS string
	// HTTP2 asks for HTTP/2 inside TLS.
	HTTP2 bool
	// Path of each request.
	Path string
	// Upload is how many bytes each request carries.
	Upload int64
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "origin" {
		fail(serveOrigin(os.Args[2:]))
		return
	}
	flags := flag.NewFlagSet("load", flag.ExitOnError)
	var target Target
	flags.StringVar(&target.Via, "via", "absolute", "direct, absolute or connect")
	flags.StringVar(&target.Dial, "dial", "", "address to connect to")
	flags.StringVar(&target.Name, "name", "", "host name of the origin")
	flags.IntVar(&target.Port, "port", 80, "port of the origin")
	flags.StringVar(&target.TLS, "tls", "", "file with the authority to trust; empty: no TLS")
	flags.BoolVar(&target.HTTP2, "http2", false, "HTTP/2 inside TLS")
	flags.StringVar(&target.Path, "path", "/small", "path of each request")
	flags.Int64Var(&target.Upload, "upload", 0, "bytes that each request carries")
	connections := flags.Int("connections", 16, "connections at once")
	seconds := flags.Float64("seconds", 3, "how long")
	expect := flags.Int("expect", 200, "status that counts as success")
	each := flags.Bool("new", false, "a new connection for each request")
	hold := flags.Bool("hold", false, "open the connections, ask once, and hold them until input ends")
	_ = flags.Parse(os.Args[1:])
	plan := Plan{
		Target: target, Connections: *connections, Expect: *expect, NewEach: *each,
		Length: time.Duration(*seconds * float64(time.Second)),
	}
	if *hold {
		fail(plan.Hold(os.Stdin, os.Stdout))
		return
	}
	result, err := plan.Run()
	fail(err)
	fail(json.NewEncoder(os.Stdout).Encode(result))
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}
