package scenario

import (
	"testing"

	"weir/internal/load/client"
)

// BenchmarkNext is what making a request costs, before it is sent.
func BenchmarkNext(b *testing.B) {
	for _, c := range []struct {
		name string
		spec Spec
	}{
		{"url", Spec{URL: origin + "/feed/1"}},
		{"feed", Spec{Scenario: "feed", Target: origin}},
		{"predict-400", Spec{Scenario: "predict", Target: origin}},
		{"sequence", Spec{Scenario: "sequence", Target: origin}},
		{"poll", Spec{Scenario: "poll", Target: origin}},
		{"mix", Spec{Scenario: "feed=3,predict=1", Target: origin}},
		{"requests", everything["requests of columns"]},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := open(b, c.spec).Source(0, 1)
			buffer := make([]byte, 0, 1<<16)
			b.ReportAllocs()
			for b.Loop() {
				s.Next(buffer)
			}
		})
	}
}

// BenchmarkPoll is a request and its answer, of 125,000 subscriptions.
func BenchmarkPoll(b *testing.B) {
	s := open(b, Spec{Scenario: "poll", Target: origin}).Source(0, 1).(client.Listener)
	buffer := make([]byte, 0, 1<<12)
	answer := client.Answer{Status: 200, ETag: []byte(`"0123456789abcdef"`), LastModified: []byte("Fri, 20 Nov 2026 15:54:34 GMT")}
	b.ReportAllocs()
	for b.Loop() {
		_, q := s.Next(buffer)
		s.Heard(q.Ref, answer)
	}
}
