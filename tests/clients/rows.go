// Writes and reads rows with gomemcache: rows.go PORT PREFIX. Ends with status 1 on a surprise.
package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

func expect(name string, actual, expected interface{}) {
	if actual != expected {
		fmt.Fprintf(os.Stderr, "%s: %v instead of %v\n", name, actual, expected)
		os.Exit(1)
	}
}

func main() {
	client, prefix := memcache.New("127.0.0.1:"+os.Args[1]), os.Args[2]
	client.Timeout = 10 * time.Second
	item := func(key, value string) *memcache.Item {
		return &memcache.Item{Key: prefix + key, Value: []byte(value), Flags: 7}
	}
	get := func(key string) string {
		found, err := client.Get(prefix + key)
		if err != nil {
			return err.Error()
		}
		expect("flags", found.Flags, uint32(7))
		return string(found.Value)
	}
	missing := memcache.ErrCacheMiss.Error()
	expect("get, missing", get("absent"), missing)
	expect("set", client.Set(item("a", "one")), nil)
	expect("get", get("a"), "one")
	expect("get again", get("a"), "one")
	expect("add, present", client.Add(item("a", "two")), memcache.ErrNotStored)
	expect("set, once more", client.Set(item("a", "three")), nil)
	first, _ := client.Get(prefix + "a")
	second, _ := client.Get(prefix + "a")
	first.Value, second.Value = []byte("new"), []byte("old")
	expect("cas, right id", client.CompareAndSwap(first), nil)
	expect("cas, used id", client.CompareAndSwap(second), memcache.ErrCASConflict)
	expect("get after cas", get("a"), "new")
	client.Set(item("number", "10"))
	number, _ := client.Increment(prefix+"number", 5)
	expect("increment", number, uint64(15))
	number, _ = client.Decrement(prefix+"number", 20)
	expect("decrement", number, uint64(0))
	keys := []string{prefix + "absent"}
	for count := 1; count < 30; count++ {
		key := fmt.Sprintf("key-%d", count)
		expect("set of many", client.Set(item(key, strings.Repeat("v", count*37))), nil)
		keys = append(keys, prefix+key)
	}
	many, err := client.GetMulti(keys)
	expect("get of many", err, nil)
	expect("count of many", len(many), 29)
	expect("one of many", len(many[prefix+"key-29"].Value), 29*37)
	expect("delete", client.Delete(prefix+"a"), nil)
	expect("get, deleted", get("a"), missing)
	expect("delete, missing", client.Delete(prefix+"absent"), memcache.ErrCacheMiss)
	refused := item("a", "x")
	refused.Expiration = 60
	expect("an expiry time is refused", client.Set(refused) != nil, true)
	expect("set, last", client.Set(item("a", "last")), nil)
}
