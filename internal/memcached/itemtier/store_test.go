package itemtier_test

import (
	"testing"
	"testing/synctest"

	"github.com/strata-cache/strata/internal/memcached/itemtier/model"
	"github.com/strata-cache/strata/internal/memcached/itemtier/storetest"
)

// TestModelIsAStore runs the checks of every Store on the model.
func TestModelIsAStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T, check func(*testing.T, storetest.Fleet)) {
		synctest.Test(t, func(t *testing.T) {
			m := model.New(t, 3)
			check(t, storetest.Fleet{
				Store: m,
				Damage: func(server int, key, text string) {
					m.Each(server, func(k string, is *model.Item) {
						if k == key {
							is.Data = []byte(text)
						}
					})
				},
				Stop: func(server int) { m.Kill(server, true) },
			})
		})
	})
}
