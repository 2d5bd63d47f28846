package wire

// ProtocolError is returned when the peer has violated the format of a protocol, or a
// limit. The rest of the stream cannot be interpreted.
type ProtocolError struct {
	// Reason is a fixed text; it never holds bytes from the wire.
	Reason string
}

// Error implements error.
func (e *ProtocolError) Error() string { return "wire: " + e.Reason }
