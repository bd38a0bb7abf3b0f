# Drives a server with Dalli as an application would: dalli.rb binary|meta PORT PREFIX [alone]. With LEASED_TLS_CA in the
# environment, a path, it speaks TLS; with LEASED_ROWS every key is a row. Ends with status 1 on a surprise.
require "dalli"
require "openssl"
require "logger"

protocol, port, prefix, alone = ARGV
# Dalli 5 is made for newer Rubies; this is all that it misses here.
class String
  def byteindex(text, offset = 0)
    b.index(text.b, offset)
  end
end unless String.method_defined?(:byteindex)

# Dalli speaks of connections on stdout.
Dalli.logger = Logger.new(File::NULL)
OPTIONS = { protocol: protocol.to_sym, namespace: prefix, socket_timeout: 10, compress: false }
OPTIONS[:ssl_context] = OpenSSL::SSL::SSLContext.new.tap { |context| context.set_params(ca_file: ENV["LEASED_TLS_CA"]) } if ENV["LEASED_TLS_CA"]
OPTIONS.freeze
CLIENT = Dalli::Client.new("127.0.0.1:#{port}", OPTIONS.dup)

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
expect("add, missing", !!CLIENT.add("added", 1), true)
CLIENT.replace("absent", 1)
expect("replace, missing", CLIENT.get("absent"), nil)
expect("gat, missing", CLIENT.gat("absent", 100), nil)
expect("incr, missing", CLIENT.incr("absent", 1), nil)
expect("get_cas, missing", CLIENT.get_cas("absent").first, nil)
expect("delete_cas, another id", !!CLIENT.delete_cas("a", unique), false)
expect("delete_cas, right id", !!CLIENT.delete_cas("a", CLIENT.get_cas("a").last), true)
stored("set again", CLIENT.set("a", 7))

# Keys that the meta protocol sends as base64, and one that is as long as keys may be.
awkward = ["with blank é", "schlüssel", "鍵", "emoji 🗝", "tab\t", "k" * (249 - prefix.bytesize), "é" * 40]
awkward.each do |key|
  stored("set #{key}", CLIENT.set(key, key))
  expect("get #{key}", CLIENT.get(key), key)
  stored("touch #{key}", CLIENT.touch(key, 100))
  stored("cas #{key}", CLIENT.cas(key) { |value| "#{value}!" })
end
got = CLIENT.get_multi(*awkward).transform_keys { |key| key.dup.force_encoding("UTF-8") }
expect("get_multi, awkward keys", got, awkward.to_h { |key| [key, "#{key}!"] })
expect("get_multi_cas", CLIENT.get_multi_cas(*awkward).keys.map(&:b).sort, awkward.map(&:b).sort)
awkward.each { |key| expect("delete #{key}", CLIENT.delete(key), true) }
CLIENT.incr("zähler", 1, 100, 41)
expect("incr of an awkward key", CLIENT.incr("zähler", 1), 42)
expect("incr, 64 bits", CLIENT.incr("wide", 1, 100, 2**63) && CLIENT.incr("wide", 2**62), 2**63 + 2**62)

many = (0...300).to_h { |number| ["key-#{number}", "v" * number * 37] }
CLIENT.multi { many.each { |key, value| CLIENT.set(key, value, 100) } }
expect("get_multi", CLIENT.get_multi(*many.keys, "absent"), many)
# Dalli 3.2 cuts what it reads by the meta protocol at the first CR LF.
large = "\x00\xff\n\r".b * 250_000
stored("set, large", CLIENT.set("large", large, 100, raw: true))
expect("get, large", CLIENT.get("large"), large)
if CLIENT.respond_to?(:quiet)
  CLIENT.quiet do
    CLIENT.add("a", 1) # refused, and not spoken of
    CLIENT.append("raw", "d")
    CLIENT.incr("n", 3)
    CLIENT.delete("absent")
    CLIENT.delete("fetched")
  end
  expect("after quiet commands", CLIENT.get_multi("a", "raw", "fetched"), { "a" => 7, "raw" => "abcd" })
  expect("incr, after a quiet one", CLIENT.incr("n", 1), 4)
end
if CLIENT.respond_to?(:set_multi)
  CLIENT.set_multi(many, 100)
  expect("delete_multi", CLIENT.delete_multi([*many.keys, "absent"]), many.size)
  expect("get_multi, deleted", CLIENT.get_multi(*many.keys), {})
end
# Dalli's own guard against herds, by mg's N and W; it stores under another key where there is a namespace.
if CLIENT.respond_to?(:fetch_with_lock)
  key = "#{prefix}:herd"
  clients = Array.new(5) { Dalli::Client.new("127.0.0.1:#{port}", OPTIONS.reject { |name| name == :namespace }) }
  clients.first.delete(key)
  made = 0
  values = clients.map { |client| client.fetch_with_lock(key, ttl: 100, lock_ttl: 10) { "value #{made += 1}" } }
  expect("fetch_with_lock", values, ["value 1"] * clients.size)
  unless ENV["LEASED_ROWS"] # a row is never stale
    clients.first.delete(key, { invalidate: true, tombstone_ttl: 30 })
    first, second = Array.new(2) { clients.last.get_with_metadata(key, return_ttl_remaining: true, return_hit_status: true) }
    expect("a tombstone", first.values_at(:value, :stale, :won_recache, :lost_recache), ["value 1", true, true, false])
    expect("a tombstone, next", second.values_at(:stale, :won_recache, :lost_recache, :hit_before), [true, false, true, true])
    expect("a tombstone's time", (1..30).cover?(second[:ttl_remaining]), true)
  end
  clients.first.delete(key)
end
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
