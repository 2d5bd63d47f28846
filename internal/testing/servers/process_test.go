package servers

import "testing"

// TestPortOfADeadServerStaysReserved has no server at a port that is reserved.
func TestPortOfADeadServerStaysReserved(t *testing.T) {
	port, release, err := Reserve()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := reserve(port); err == nil {
		again()
		t.Errorf("port %d is reserved twice", port)
	}
	release()
	again, err := reserve(port)
	if err != nil {
		t.Fatalf("port %d was released: %v", port, err)
	}
	again()
}
