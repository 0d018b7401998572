package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"strconv"
)

// http1 asks over HTTP/1.1 with one request at a time.
type http1 struct {
	connection net.Conn
	reader     *bufio.Reader
	head       []byte
	upload     int64
	// last says that the peer closes after this answer.
	last bool
}

func newHTTP1(connection net.Conn, target Target) *http1 {
	authority := target.Name
	if target.Port != 80 && target.Port != 443 {
		authority = fmt.Sprintf("%s:%d", target.Name, target.Port)
	}
	place := target.Path
	if target.Via == "absolute" {
		place = "http://" + authority + place
	}
	method, length := "GET", ""
	if target.Upload > 0 {
		method, length = "POST", fmt.Sprintf("Content-Length: %d\r\n", target.Upload)
	}
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", method, place, authority, length)
	return &http1{connection: connection, reader: newReader(connection), head: []byte(head), upload: target.Upload}
}

func (one *http1) ask() (int, int64, error) {
	if _, err := one.connection.Write(one.head); err != nil {
		return 0, 0, err
	}
	if one.upload > 0 {
		if _, err := io.CopyN(one.connection, zeros{}, one.upload); err != nil {
			return 0, 0, err
		}
	}
	return one.answer()
}

func (one *http1) answer() (int, int64, error) {
	line, err := one.reader.ReadSlice('\n')
	if err != nil {
		return 0, 0, err
	}
	if len(line) < 12 {
		return 0, 0, errors.New("not a status line")
	}
	status, err := strconv.Atoi(string(line[9:12]))
	if err != nil {
		return 0, 0, err
	}
	length, chunked := int64(-1), false
	one.last = bytes.HasPrefix(line, []byte("HTTP/1.0"))
	for {
		line, err := one.reader.ReadSlice('\n')
		if err != nil {
			return 0, 0, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("content-length")):
			if length, err = strconv.ParseInt(string(value), 10, 64); err != nil {
				return 0, 0, err
			}
		case bytes.EqualFold(name, []byte("transfer-encoding")):
			chunked = true
		case bytes.EqualFold(name, []byte("connection")):
			one.last = bytes.EqualFold(value, []byte("close"))
		}
	}
	if chunked {
		length, err = io.Copy(io.Discard, httputil.NewChunkedReader(one.reader))
		if err == nil {
			_, err = one.reader.ReadSlice('\n') // after the last chunk, no trailers
		}
		return status, length, err
	}
	if length < 0 && one.last { // the body ends with the connection
		length, err = io.Copy(io.Discard, one.reader)
		return status, length, err
	}
	_, err = io.CopyN(io.Discard, one.reader, max(length, 0))
	return status, max(length, 0), err
}

func (one *http1) ended() bool { return one.last }

func (one *http1) close() { one.connection.Close() }

// zeros is an endless source of bytes.
type zeros struct{}

func (zeros) Read(into []byte) (int, error) { return len(into), nil }
