// Package zstd is the format Zstandard for [codec.Compressed]: smaller values than
// package codec/flate makes, in less time.
package zstd

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/strata-cache/strata/codec"
)

const (
	// window is the distance over which the compressor finds repetitions. A frame that
	// claims a larger one is refused.
	window = 1 << 20
	// most is the largest length of decompressed bytes. codec.Compressed has the same.
	most = 64 << 20
	// blockHeader is the length of the header of each block in a frame.
	blockHeader = 3
)

// New returns the format named "zstd". It compresses at the level SpeedDefault, without
// a checksum, and starts no goroutines. It keeps the memory of its compressors, which is
// 1.6 to 4.4 MiB for each call of Append that runs at the same time, until the garbage
// collector takes it.
func New() codec.Compressor { return &format{} }

type format struct {
	encoders sync.Pool // of *zstd.Encoder
	decoders sync.Pool // of *zstd.Decoder
}

// Name implements [codec.Compressor].
func (*format) Name() string { return "zstd" }

// Compress implements [codec.Compressor].
func (f *format) Compress(dst, src []byte) ([]byte, error) {
	e, err := f.encoder()
	if err != nil {
		return dst, err
	}
	defer f.encoders.Put(e)
	return e.EncodeAll(src, dst), nil
}

func (f *format) encoder() (*zstd.Encoder, error) {
	if e, ok := f.encoders.Get().(*zstd.Encoder); ok {
		return e, nil
	}
	return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false), zstd.WithWindowSize(window), zstd.WithZeroFrames(true))
}

// Decompress implements [codec.Compressor].
func (f *format) Decompress(dst, src []byte) ([]byte, error) {
	if err := checkFrame(src); err != nil {
		return dst, err
	}
	d, err := f.decoder()
	if err != nil {
		return dst, err
	}
	defer f.decoders.Put(d)
	out, err := d.DecodeAll(src, dst[len(dst):len(dst):cap(dst)])
	if err != nil {
		return dst, reason(err)
	}
	return dst[:len(dst)+len(out)], nil
}

func (f *format) decoder() (*zstd.Decoder, error) {
	if d, ok := f.decoders.Get().(*zstd.Decoder); ok {
		return d, nil
	}
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true),
		zstd.WithDecoderMaxMemory(most), zstd.WithDecoderMaxWindow(window))
}

// checkFrame returns nil if src is one frame with nothing behind it, as far as its
// headers tell. A decoder accepts several frames, and frames without contents.
func checkFrame(src []byte) error {
	var h zstd.Header
	if err := h.Decode(src); err != nil {
		return reason(err)
	}
	if h.Skippable {
		return codec.ErrMalformed
	}
	rest := src[h.HeaderSize:]
	for last := false; !last; {
		if len(rest) < blockHeader {
			return codec.ErrShort
		}
		var size int
		size, last = block(rest)
		if rest = rest[blockHeader:]; size > len(rest) {
			return codec.ErrShort
		}
		rest = rest[size:]
	}
	switch {
	case h.HasCheckSum:
		return codec.ErrMalformed
	case len(rest) > 0:
		return codec.ErrLong
	}
	return nil
}

// block reads the header of a block: the number of bytes after it, and whether the
// block is the last.
func block(b []byte) (size int, last bool) {
	const repeated = 1 // one byte, which stands for size of them
	n := int(b[0]) | int(b[1])<<8 | int(b[2])<<16
	if size = n >> 3; n>>1&3 == repeated {
		size = 1
	}
	return size, n&1 != 0
}

// reason returns the error of package codec or io for one of the decoder.
func reason(err error) error {
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return io.ErrShortBuffer
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return codec.ErrShort
	}
	return fmt.Errorf("%w: %w", codec.ErrMalformed, err)
}
