package strataotel_test

import (
	"errors"
	"net"
	"testing"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/strata-cache/strata"
	strataotel "github.com/strata-cache/strata/otel"
	"github.com/strata-cache/strata/remote"
)

// badError is an error with a text and a kind in invalid UTF-8.
type badError struct{}

func (badError) Error() string     { return "no row \xff" }
func (badError) ErrorType() string { return "kind \xff" }

// TestEveryTextOfASpanIsUTF8 has invalid UTF-8 in every text from outside. The protocol cannot
// carry it, and would lose the spans of the whole program.
func TestEveryTextOfASpanIsUTF8(t *testing.T) {
	r := record()
	tracer := strataotel.NewTracer(r, strataotel.WithErrorText(error.Error))
	for _, name := range []string{strata.SpanGet, strata.SpanLoad, strata.SpanSet, strata.SpanInvalidate, "\xff"} {
		_, end := tracer.Start(t.Context(), strata.Span{Name: name, Cache: "users\xff", Key: "k\xff", Reason: "\xff"})
		end(strata.SpanEnd{Result: "\xff", Err: badError{}})
		_, end = tracer.Start(t.Context(), strata.Span{Name: name, Key: [2]string{"\xff", "cut \xc3"}})
		end(strata.SpanEnd{Err: errors.New("cut \xe2\x82")})
	}
	trace, reader := newTrace(t, r)
	c := remote.Command{Name: "GET\xff", System: "\xff", Addr: net.JoinHostPort("\xff", "1"), Script: "\xff"}
	trace(t.Context(), c)(remote.CommandEnd{Status: "\xff", Err: badError{}})
	c.Addr = "/socket\xff"
	trace(t.Context(), c)(remote.CommandEnd{Err: badError{}})

	texts, bad := 0, 0
	see := func(what, text string) {
		if texts++; !utf8.ValidString(text) {
			bad++
			t.Errorf("%s: %q", what, text)
		}
	}
	seeAll := func(what string, all []attribute.KeyValue) {
		for _, a := range all {
			see(what+" "+string(a.Key), a.Value.String())
		}
	}
	for _, s := range r.spans.Ended() {
		see("name", s.Name())
		see("status", s.Status().Description)
		seeAll("attribute", s.Attributes())
		for _, e := range s.Events() {
			see("event", e.Name)
			seeAll("event", e.Attributes)
		}
	}
	for _, m := range collect(t, reader) {
		if h, ok := m.Data.(metricdata.Histogram[float64]); ok {
			for _, p := range h.DataPoints {
				seeAll(m.Name, p.Attributes.ToSlice())
			}
		}
	}
	if texts < 80 {
		t.Errorf("%d texts were seen", texts)
	}
}
