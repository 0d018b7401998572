package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Plan is one measurement.
type Plan struct {
	Target      Target
	Connections int
	Expect      int
	NewEach     bool
	Length      time.Duration
}

// Result is what a measurement found.
type Result struct {
	Requests int     `json:"requests"`
	Failures int     `json:"failures"`
	Failure  string  `json:"failure,omitempty"`
	Seconds  float64 `json:"seconds"`
	Bytes    int64   `json:"bytes"`
	P50us    float64 `json:"p50_us"`
	P99us    float64 `json:"p99_us"`
}

// client asks over one connection.
type client interface {
	// ask sends one request; the status and the bytes of the body, which is read to its end.
	ask() (status int, body int64, err error)
	// ended tells whether the peer closes after the last answer.
	ended() bool
	close()
}

type worker struct {
	times    []time.Duration
	failures int
	failure  string
	bytes    int64
}

// Run puts the load on and counts.
func (plan Plan) Run() (Result, error) {
	open, err := opener(plan.Target)
	if err != nil {
		return Result{}, err
	}
	workers := make([]worker, plan.Connections)
	var group sync.WaitGroup
	start := time.Now()
	for index := range workers {
		group.Add(1)
		go func(worker *worker) {
			defer group.Done()
			worker.work(plan, open, start.Add(plan.Length))
		}(&workers[index])
	}
	group.Wait()
	return sum(workers, time.Since(start)), nil
}

func (worker *worker) work(plan Plan, open func() (client, error), end time.Time) {
	var current client
	answers := 0 // on the current connection
	for time.Now().Before(end) {
		begin := time.Now()
		if current == nil {
			opened, err := open()
			if err != nil {
				worker.fail(err.Error())
				time.Sleep(10 * time.Millisecond)
				continue
			}
			current, answers = opened, 0
		}
		status, body, err := current.ask()
		if err != nil && answers > 0 && plan.Target.Upload == 0 && closed(err) {
			// The peer closed after its last answer without saying so: clients ask again.
			current.close()
			current = nil
			continue
		}
		answers++
		worker.bytes += body + plan.Target.Upload
		switch {
		case err != nil:
			worker.fail(err.Error())
		case status != plan.Expect:
			worker.fail(fmt.Sprintf("status %d", status))
		default:
			worker.times = append(worker.times, time.Since(begin))
		}
		if err != nil || plan.NewEach || current.ended() {
			current.close()
			current = nil
		}
	}
	if current != nil {
		current.close()
	}
}

func closed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func (worker *worker) fail(why string) {
	worker.failures++
	worker.failure = why
}

func sum(workers []worker, took time.Duration) Result {
	var times []time.Duration
	result := Result{Seconds: took.Seconds()}
	for _, worker := range workers {
		times = append(times, worker.times...)
		result.Failures += worker.failures
		result.Bytes += worker.bytes
		if worker.failure != "" {
			result.Failure = worker.failure
		}
	}
	result.Requests = len(times)
	if len(times) > 0 {
		slices.Sort(times)
		result.P50us = float64(times[len(times)/2].Nanoseconds()) / 1e3
		result.P99us = float64(times[len(times)*99/100].Nanoseconds()) / 1e3
	}
	return result
}

// Hold opens all connections, asks once on each, says how many answered, and waits for the end of
// its input.
func (plan Plan) Hold(input io.Reader, output io.Writer) error {
	open, err := opener(plan.Target)
	if err != nil {
		return err
	}
	answered := 0
	for range plan.Connections {
		one, err := open()
		if err != nil {
			continue
		}
		defer one.close()
		if status, _, err := one.ask(); err == nil && status == plan.Expect {
			answered++
		}
	}
	if _, err := fmt.Fprintln(output, answered); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, input)
	return err
}
