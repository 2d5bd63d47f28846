package load

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"syscall"
	"time"
)

// Result is the result of a run.
type Result struct {
	// Elapsed is the time from the start to the last answer, and at least
	// Options.Duration unless the run was interrupted.
	Elapsed time.Duration
	// Done is the number of requests with an answer or a failure.
	Done int64
	// Unsent is the number of scheduled requests still unsent at the end of the run,
	// because all connections waited for answers. It is always 0 without a rate.
	Unsent int64
	// Interrupted is true if the context ended the run.
	Interrupted bool
	// Bytes is the sum of the bodies received.
	Bytes int64

	// Changes is the number of changes by Running.Set, and Settings are the last ones.
	Changes  int
	Settings Settings

	// Status counts answers by status code.
	Status map[int]int64
	// Errors counts requests without a complete answer.
	Errors map[Kind]int64
	// ErrorExample is the text of the first error of kind OtherError.
	ErrorExample string

	// Latency is measured from the intended start, Service from the sending.
	// They are equal without a rate.
	Latency, Service Latencies
	// Steps has the Latency of each of Options.Steps parts of the run.
	Steps []Latencies
}

// Rate returns the number of completed requests per second.
func (r *Result) Rate() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Done) / r.Elapsed.Seconds()
}

// Failed returns the number of requests without a complete answer.
func (r *Result) Failed() int64 { return total(r.Errors) }

// Refused returns the number of answers with status 400 and above.
func (r *Result) Refused() (n int64) {
	for code, c := range r.Status {
		if code >= 400 {
			n += c
		}
	}
	return n
}

// Latencies is a summary of latencies, with three digits and in whole
// microseconds.
type Latencies struct {
	// Count is the number of requests in the summary: the requests with an answer and
	// the requests that timed out.
	Count                               int64
	Mean, P50, P90, P95, P99, P999, Max time.Duration
}

// Progress is the state of a running load.
type Progress struct {
	// Elapsed is the time since the start.
	Elapsed time.Duration
	// Settings are those in force.
	Settings Settings
	// Rate is the number of requests per second since the previous call.
	Rate float64
	// Done and Errors count since the start.
	Done, Errors int64
	// Running is the number of requests sent and not yet answered. Behind is the number
	// of requests past their intended start that wait to be sent.
	Running, Behind int64

	// Latency are the latencies since the start, Recent those since the previous call.
	Latency, Recent Latencies
	// Buckets count the latencies since the start.
	Buckets []Bucket
	// Status counts answers by status code since the start.
	Status map[int]int64
	// Failures counts requests without a complete answer since the start.
	Failures map[Kind]int64
}

// Kind is the reason why a request has no complete answer.
type Kind string

// The kinds of errors.
const (
	Timeout           Kind = "timeout"
	ConnectionRefused Kind = "connection refused"
	ConnectionReset   Kind = "connection reset"
	ConnectionClosed  Kind = "connection closed"
	NameNotResolved   Kind = "name not resolved"
	TLSError          Kind = "tls"
	NoLocalPort       Kind = "no local port or file left"
	OtherError        Kind = "other"
)

// kindOf returns the kind of an error of a RoundTripper.
func kindOf(err error) Kind {
	switch {
	case isTimeout(err):
		return Timeout
	case isAny(err, syscall.ECONNREFUSED):
		return ConnectionRefused
	case isAny(err, syscall.ECONNRESET, syscall.EPIPE):
		return ConnectionReset
	case isAny(err, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed):
		return ConnectionClosed
	case isAny(err, syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL):
		return NoLocalPort
	case isTLS(err):
		return TLSError
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return NameNotResolved
	}
	return OtherError
}

func isTimeout(err error) bool {
	n, ok := errors.AsType[net.Error](err)
	return errors.Is(err, context.DeadlineExceeded) || ok && n.Timeout()
}

func isTLS(err error) bool {
	_, record := errors.AsType[tls.RecordHeaderError](err)
	_, cert := errors.AsType[*tls.CertificateVerificationError](err)
	_, alert := errors.AsType[tls.AlertError](err)
	return record || cert || alert
}

func isAny(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}
