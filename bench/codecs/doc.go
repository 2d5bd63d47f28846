// Package codecs compares codec/compact with other ways to write a Go value as bytes, on
// one type of nine fields. It has tests and a benchmark only.
//
// The rows:
//   - compact: Append into a reused buffer, and Decode, which copies.
//   - compact, aliased: DecodeAlias.
//   - gob stream: one gob.Encoder and one gob.Decoder for all values, of which the first
//     has described the type. So does a file of many entries; for single values of a
//     shared tier it is of no use.
//   - codec/gob: a value for itself, without the description.
//   - gob per value: an Encoder and a Decoder for each value.
//   - encoding/json: Marshal and Unmarshal.
//   - hamba/avro: Marshal and Unmarshal with a schema written for the type. Its times are
//     in microseconds.
//
// Times are processor times of the process, the share of the collector with them, on one
// goroutine. Each row has its turn in each round. The ratio is the median over rounds of
// the gob stream's time / the row's time: above 1 is faster than the stream.
package codecs
