package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	windowBytes = 1 << 30
	refillBytes = 1 << 28
)

// http2Client asks over HTTP/2, one stream after another.
type http2Client struct {
	connection net.Conn
	writer     *bufio.Writer
	framer     *http2.Framer
	fields     []byte
	stream     uint32
	unread     uint32
}

func newHTTP2(connection net.Conn, target Target) (*http2Client, error) {
	if target.Upload > 0 {
		return nil, errors.New("uploads are measured over HTTP/1.1")
	}
	writer := bufio.NewWriter(connection)
	framer := http2.NewFramer(writer, newReader(connection))
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	framer.SetMaxReadFrameSize(1 << 20)
	one := &http2Client{connection: connection, writer: writer, framer: framer}
	var fields bytes.Buffer
	encoder := hpack.NewEncoder(&fields)
	encoder.SetMaxDynamicTableSize(0) // the same bytes serve every request
	for _, field := range [][2]string{
		{":method", "GET"}, {":scheme", "https"}, {":authority", target.Name}, {":path", target.Path},
	} {
		if err := encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
			return nil, err
		}
	}
	one.fields = fields.Bytes()
	if _, err := writer.WriteString(http2.ClientPreface); err != nil {
		return nil, err
	}
	settings := []http2.Setting{
		{ID: http2.SettingEnablePush, Val: 0},
		{ID: http2.SettingInitialWindowSize, Val: windowBytes},
	}
	if err := framer.WriteSettings(settings...); err != nil {
		return nil, err
	}
	if err := framer.WriteWindowUpdate(0, windowBytes); err != nil {
		return nil, err
	}
	return one, writer.Flush()
}

func (one *http2Client) ask() (int, int64, error) {
	if one.stream == 0 {
		one.stream = 1
	} else {
		one.stream += 2
	}
	request := http2.HeadersFrameParam{
		StreamID: one.stream, BlockFragment: one.fields, EndStream: true, EndHeaders: true,
	}
	if err := one.framer.WriteHeaders(request); err != nil {
		return 0, 0, err
	}
	if err := one.writer.Flush(); err != nil {
		return 0, 0, err
	}
	return one.answer()
}

func (one *http2Client) answer() (int, int64, error) {
	status, length := 0, int64(0)
	for {
		frame, err := one.framer.ReadFrame()
		if err != nil {
			return 0, length, err
		}
		ended := false
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			if status, err = strconv.Atoi(frame.PseudoValue("status")); err != nil && status == 0 {
				return 0, length, err
			}
			ended = frame.StreamEnded()
		case *http2.DataFrame:
			length += int64(len(frame.Data()))
			if err := one.refill(frame.Header().Length); err != nil {
				return 0, length, err
			}
			ended = frame.StreamEnded()
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				if err := one.reply(one.framer.WriteSettingsAck()); err != nil {
					return 0, length, err
				}
			}
		case *http2.PingFrame:
			if !frame.IsAck() {
				if err := one.reply(one.framer.WritePing(true, frame.Data)); err != nil {
					return 0, length, err
				}
			}
		case *http2.RSTStreamFrame:
			return 0, length, fmt.Errorf("reset: %v", frame.ErrCode)
		case *http2.GoAwayFrame:
			return 0, length, fmt.Errorf("go away: %v", frame.ErrCode)
		}
		if ended {
			return status, length, nil
		}
	}
}

// refill gives the connection's window back in large steps; a stream's own is never used up.
func (one *http2Client) refill(bytes uint32) error {
	if one.unread += bytes; one.unread < refillBytes {
		return nil
	}
	err := one.framer.WriteWindowUpdate(0, one.unread)
	one.unread = 0
	return one.reply(err)
}

func (one *http2Client) reply(err error) error {
	if err != nil {
		return err
	}
	return one.writer.Flush()
}

func (one *http2Client) ended() bool { return false }

func (one *http2Client) close() { one.connection.Close() }
