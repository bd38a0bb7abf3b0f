// Writes and reads rows with gomemcache: rows.go PORT[,PORT] PREFIX. With two ports, each call goes to another
// server than the one before. Ends with status 1 on a surprise.
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
	prefix, turn := os.Args[2], 0
	var clients []*memcache.Client
	for _, port := range strings.Split(os.Args[1], ",") {
		client := memcache.New("127.0.0.1:" + port)
		client.Timeout = 10 * time.Second
		clients = append(clients, client)
	}
	next := func() *memcache.Client {
		turn++
		return clients[turn%len(clients)]
	}
	item := func(key, value string) *memcache.Item {
		return &memcache.Item{Key: prefix + key, Value: []byte(value), Flags: 7}
	}
	get := func(key string) string {
		found, err := next().Get(prefix + key)
		if err != nil {
			return err.Error()
		}
		expect("flags", found.Flags, uint32(7))
		return string(found.Value)
	}
	missing := memcache.ErrCacheMiss.Error()
	expect("get, missing", get("absent"), missing)
	expect("set", next().Set(item("a", "one")), nil)
	expect("get", get("a"), "one")
	expect("get again", get("a"), "one")
	expect("add, present", next().Add(item("a", "two")), memcache.ErrNotStored)
	expect("set, once more", next().Set(item("a", "three")), nil)
	first, _ := next().Get(prefix + "a")
	second, _ := next().Get(prefix + "a")
	first.Value, second.Value = []byte("new"), []byte("old")
	expect("cas, right id", next().CompareAndSwap(first), nil)
	expect("cas, used id", next().CompareAndSwap(second), memcache.ErrCASConflict)
	expect("get after cas", get("a"), "new")
	next().Set(item("number", "10"))
	number, _ := next().Increment(prefix+"number", 5)
	expect("increment", number, uint64(15))
	number, _ = next().Decrement(prefix+"number", 20)
	expect("decrement", number, uint64(0))
	keys := []string{prefix + "absent"}
	for count := 1; count < 30; count++ {
		key := fmt.Sprintf("key-%d", count)
		expect("set of many", next().Set(item(key, strings.Repeat("v", count*37))), nil)
		keys = append(keys, prefix+key)
	}
	many, err := next().GetMulti(keys)
	expect("get of many", err, nil)
	expect("count of many", len(many), 29)
	expect("one of many", len(many[prefix+"key-29"].Value), 29*37)
	expect("delete", next().Delete(prefix+"a"), nil)
	expect("get, deleted", get("a"), missing)
	expect("delete, missing", next().Delete(prefix+"absent"), memcache.ErrCacheMiss)
	refused := item("a", "x")
	refused.Expiration = 60
	expect("an expiry time is refused", next().Set(refused) != nil, true)
	expect("set, last", next().Set(item("a", "last")), nil)
}
