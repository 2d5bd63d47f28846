//go:build !linux

package rig

import "errors"

// PinApart would give the server one processor and this process another. It
// changes nothing and returns an error: this system has no way that we know.
func PinApart(int) (restore func(), err error) {
	return func() {}, errors.New("rig: processes cannot be pinned here")
}
