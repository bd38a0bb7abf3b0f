# Drives a server with Dalli, in the binary protocol, as an application would: dalli.rb PORT PREFIX [alone].
# Ends with status 1 on a surprise.
require "dalli"
require "logger"

port, prefix, alone = ARGV
# Dalli speaks of connections on stdout.
Dalli.logger = Logger.new(File::NULL)
CLIENT = Dalli::Client.new("127.0.0.1:#{port}", namespace: prefix, socket_timeout: 10, compress: false)

def expect(name, actual, expected)
  return if actual == expected

  warn "#{name}: #{actual.inspect[0, 200]} instead of #{expected.inspect[0, 200]}"
  exit 1
end

def stored(name, actual)
  expect(name, !!actual, true)
end

stored("set", CLIENT.set("a", { "any" => [1, nil, "é"] }))
expect("get", CLIENT.get("a"), { "any" => [1, nil, "é"] })
expect("get, missing", CLIENT.get("absent"), nil)
expect("add, present", !!CLIENT.add("a", 1), false)
stored("replace", CLIENT.replace("a", 1))
expect("fetch, missing", CLIENT.fetch("fetched") { "made" }, "made")
expect("fetch, present", CLIENT.fetch("fetched") { "again" }, "made")
stored("set, raw", CLIENT.set("raw", "b", 100, raw: true))
CLIENT.append("raw", "c")
CLIENT.prepend("raw", "a")
expect("append and prepend", CLIENT.get("raw"), "abc")
expect("incr, made", CLIENT.incr("n", 1, 100, 10), 10)
expect("incr", CLIENT.incr("n", 5), 15)
expect("decr", CLIENT.decr("n", 20), 0)
stored("cas", CLIENT.cas("a") { |value| value + 1 })
_, unique = CLIENT.get_cas("a")
stored("set_cas, right id", CLIENT.set_cas("a", 7, unique))
expect("set_cas, used id", !!CLIENT.set_cas("a", 8, unique), false)
expect("get after cas", CLIENT.get("a"), 7)
stored("touch", CLIENT.touch("a", 100))
expect("touch, missing", CLIENT.touch("absent", 100), nil)
expect("gat", CLIENT.gat("a", 100), 7)
expect("a key with blanks", CLIENT.set("with blank é", 1) && CLIENT.get("with blank é"), 1)

many = (0...300).to_h { |number| ["key-#{number}", "v" * number * 37] }
CLIENT.multi { many.each { |key, value| CLIENT.set(key, value, 100) } }
expect("get_multi", CLIENT.get_multi(*many.keys, "absent"), many)
large = "\x00\xff\r\n".b * 250_000
stored("set, large", CLIENT.set("large", large, 100, raw: true))
expect("get, large", CLIENT.get("large"), large)
expect("delete", CLIENT.delete("a"), true)
expect("delete, missing", !!CLIENT.delete("a"), false)
many.each_key { |key| CLIENT.delete(key) }

exit unless alone
CLIENT.flush
expect("get, flushed", CLIENT.get("large"), nil)
CLIENT.set("new", 1)
expect("curr_items", CLIENT.stats.values.first["curr_items"].to_i.positive?, true)
expect("version", CLIENT.version.values.first[/\A1\.6\.45/], "1.6.45")
expect("stats settings", CLIENT.stats(:settings).values.first["maxconns"], "1024")
