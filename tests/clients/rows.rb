# Writes and reads rows through the update-token origin with Dalli: rows.rb binary|meta PORT[,PORT] PREFIX.
# With two ports, each call goes to another server than the one before. Ends with status 1 on a surprise.
require "dalli"
require "logger"

protocol, ports, prefix = ARGV
# Dalli 5 is made for newer Rubies; this is all that it misses here.
class String
  def byteindex(text, offset = 0)
    b.index(text.b, offset)
  end
end unless String.method_defined?(:byteindex)

# Dalli speaks of connections on stdout.
Dalli.logger = Logger.new(File::NULL)
# Dalli puts a colon behind its namespace.
OPTIONS = { protocol: protocol.to_sym, namespace: prefix.chomp(":"), socket_timeout: 10, compress: false }.freeze
# Clients of several servers, in turns.
class Turns < BasicObject
  def initialize(clients)
    @clients = clients
  end

  def method_missing(name, *args, **options, &block)
    @clients.rotate!
    @clients.first.__send__(name, *args, **options, &block)
  end
end
CLIENT = Turns.new(ports.split(",").map { |port| Dalli::Client.new("127.0.0.1:#{port}", OPTIONS.dup) })

def expect(name, actual, expected)
  return if actual == expected

  warn "#{name}: #{actual.inspect[0, 200]} instead of #{expected.inspect[0, 200]}"
  exit 1
end

expect("get, missing", CLIENT.get("absent"), nil)
expect("set", !!CLIENT.set("a", { "any" => [1, nil, "x"] }), true)
expect("get", CLIENT.get("a"), { "any" => [1, nil, "x"] })
expect("get again", CLIENT.get("a"), { "any" => [1, nil, "x"] })
expect("add, present", !!CLIENT.add("a", 1), false)
expect("replace", !!CLIENT.replace("a", 1), true)
expect("fetch, missing", CLIENT.fetch("fetched") { "made" }, "made")
expect("fetch, present", CLIENT.fetch("fetched") { "again" }, "made")
expect("set, raw", !!CLIENT.set("raw", "b", nil, raw: true), true)
CLIENT.append("raw", "c")
CLIENT.prepend("raw", "a")
expect("append and prepend", CLIENT.get("raw", raw: true), "abc")
expect("incr, made", CLIENT.incr("n", 1, 0, 10), 10)
expect("incr", CLIENT.incr("n", 5), 15)
expect("decr", CLIENT.decr("n", 20), 0)
expect("incr, missing", CLIENT.incr("absent", 1), nil)
expect("cas", !!CLIENT.cas("a") { |value| value + 1 }, true)
_, unique = CLIENT.get_cas("a")
expect("set_cas, right id", !!CLIENT.set_cas("a", 7, unique), true)
expect("set_cas, used id", !!CLIENT.set_cas("a", 8, unique), false)
expect("get after cas", CLIENT.get("a"), 7)
names = (1..20).map { |number| "many-#{number}" }
names.each { |name| CLIENT.set(name, name * 9) }
expect("get_multi", CLIENT.get_multi(*names, "absent"), names.to_h { |name| [name, name * 9] })
expect("delete", CLIENT.delete("raw"), true)
expect("get, deleted", CLIENT.get("raw"), nil)
CLIENT.set("a", "last", nil, raw: true)
