package redis

import (
	"errors"
	"time"
)

// ErrTooLarge says that a value is larger than Options.MaxValue. Nothing was
// sent.
var ErrTooLarge = errors.New("redis: value larger than Options.MaxValue")

// maxValue is the length of the largest string, in bytes.
func (o *Options) maxValue() int64 {
	if o.MaxValue > 0 {
		return int64(o.MaxValue)
	}
	return 512 << 20
}

// checkCommand returns the name of a command in upper case, if it may be sent.
func (o *Options) checkCommand(args []any) (string, error) {
	name, err := commandName(args)
	if err == nil {
		err = o.checkSizes(args)
	}
	return name, err
}

func (o *Options) checkSizes(args []any) error {
	most := o.maxValue()
	for _, a := range args {
		n := 0
		switch v := a.(type) {
		case string:
			n = len(v)
		case []byte:
			n = len(v)
		}
		if int64(n) > most {
			return ErrTooLarge
		}
	}
	return nil
}

// checkSet checks the value and the life of a SET.
func (o *Options) checkSet(size int64, ttl time.Duration) error {
	switch {
	case size > o.maxValue():
		return ErrTooLarge
	case ttl < 0:
		return errors.New("redis: negative life")
	}
	return nil
}
