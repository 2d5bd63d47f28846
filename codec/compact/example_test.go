package compact_test

import (
	"fmt"

	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/codec/compact"
)

func ExampleNew() {
	type user struct {
		Name string
		Age  int
	}
	c := compact.New[user]()
	data, _ := c.Append(nil, user{"Ann", 42})
	v, err := c.Decode(data)
	fmt.Printf("%x is %+v, %v\n", data, v, err)

	type event struct{ Payload any }
	fmt.Println(compact.New[event]().(codec.Checker).Check())
	// Output:
	// 03416e6e54 is {Name:Ann Age:42}, <nil>
	// codec: compact: encode compact_test.event: event.Payload: interface is not supported, use codec/gob
}
