package kit

// Length is a writer that counts the bytes and keeps none.
type Length int

// Write implements io.Writer.
func (l *Length) Write(p []byte) (int, error) {
	*l += Length(len(p))
	return len(p), nil
}
