# Leases with Dalli, in front of SQLite: leases_dalli.rb [PORT [PREFIX]]
#
# The server is started with `-z 3333`. Dalli from 3.2 on speaks the meta protocol, older ones the binary one; this teaches both getss
# and deletess. Filling is Dalli's own set_cas.
require "dalli"
require "logger"
require "sqlite3"

PORT = ARGV[0] || "11211"
KEY = "#{ARGV[1]}article:1"
TTL = 60
Dalli.logger = Logger.new(File::NULL)

# The reply of getss without a value. `remain`: 0 if the lease is ours, else the seconds for which another client holds it.
Lease = Struct.new(:remain)

# Both protocols answer `getss` with the value or a Lease, and a cas id; `deletess` removes the key, and all rights to fill it, and
# answers with the cas id of the new lease.
module BinaryLeases
  GETSS = 0x60
  DELETESS = 0x64
  LEASED = 0x12
  UNCACHEABLE = 0x13

  def getss(key, seconds)
    status, extras_length, body, cas_id = lease_request(GETSS, key, seconds)
    return [Lease.new(body.unpack("NN")[1]), cas_id] if status == LEASED
    return [Lease.new(1), 0] if status == UNCACHEABLE # an update is under way: as if another held the lease
    raise Dalli::DalliError, "getss: status #{status}" unless status.zero?

    [body.byteslice(extras_length..), cas_id]
  end

  def deletess(key, seconds)
    lease_request(DELETESS, key, seconds).last
  end

  private

  def lease_request(opcode, key, seconds)
    write([0x80, opcode, key.bytesize, 4, 0, 0, 4 + key.bytesize, 0, 0, seconds, key].pack("CCnCCnNNQ>Na*"))
    @response_processor.read_response
  end
end

# Meta and text commands share a connection.
module TextLeases
  LEASE_FLAG = 0x3333

  def getss(key, seconds)
    _, _, flags, length, cas_id = ask("getss #{seconds} #{key}", "VALUE")
    body = @connection_manager.read(length.to_i + 2).byteslice(0, length.to_i)
    @connection_manager.read_line # END
    [flags.to_i == LEASE_FLAG ? Lease.new(body.to_i) : body, cas_id.to_i]
  end

  def deletess(key, seconds)
    ask("deletess #{seconds} #{key}", "DELETED", "NOT_FOUND").last.to_i
  end

  private

  def ask(line, *expected)
    write("#{line}\r\n")
    @connection_manager.flush if @connection_manager.respond_to?(:flush) # since 5.0 it gathers what is written
    answer = @connection_manager.read_line.split
    raise Dalli::DalliError, "#{line}: #{answer.join(" ")}" unless expected.include?(answer.first)

    answer
  end
end

SPEAKS_META = Gem::Version.new(Dalli::VERSION) >= Gem::Version.new("3.2")
if SPEAKS_META
  Dalli::Protocol::Meta.include(TextLeases)
else
  Dalli::Protocol::Binary.include(BinaryLeases)
end

module Dalli
  class Client
    def getss(key, seconds)
      perform(:getss, key, seconds)
    end

    def deletess(key, seconds)
      perform(:deletess, key, seconds)
    end
  end
end

# A table, and the cache in front of it.
class Articles
  attr_accessor :loads

  def initialize
    @database = SQLite3::Database.new(":memory:")
    @database.execute("CREATE TABLE article (id INTEGER PRIMARY KEY, title TEXT)")
    @database.execute("INSERT INTO article VALUES (1, 'first title')")
    @loads = 0
  end

  def load
    @loads += 1
    @database.get_first_value("SELECT title FROM article WHERE id = 1")
  end

  def read(cache)
    100.times do
      value, cas_id = cache.getss(KEY, 10)
      return value unless value.is_a?(Lease)

      if value.remain.zero? # the lease first, the database after it
        title = load
        cache.set_cas(KEY, title, cas_id, TTL, raw: true) # refused if the row has changed since
        return title
      end
      sleep 0.05 # another client holds the lease
    end
    load # without filling: the lease is not ours
  end

  def write(cache, title)
    @database.execute("UPDATE article SET title = ? WHERE id = 1", [title])
    cache.deletess(KEY, 1) # after the commit, always
  end
end

def expect(what, actual, expected)
  abort "#{what}: #{actual.inspect} instead of #{expected.inspect}" if actual != expected
  puts "#{what}: #{actual.inspect}"
end

def connect
  protocol = SPEAKS_META ? :meta : :binary
  Dalli::Client.new("127.0.0.1:#{PORT}", protocol: protocol, socket_timeout: 10, compress: false)
end

puts "Dalli #{Dalli::VERSION}, #{SPEAKS_META ? "meta" : "binary"} protocol"
articles = Articles.new
cache = connect
slow = connect
cache.delete(KEY)
expect "the first reader asks the database", [articles.read(cache), articles.loads], ["first title", 1]
expect "the second finds it in the cache", [articles.read(slow), articles.loads], ["first title", 1]

cache.delete(KEY)
_lease, cas_id = slow.getss(KEY, 10)
stale = articles.load
articles.write(cache, "second title")
stored = slow.set_cas(KEY, stale, cas_id, TTL, raw: true)
expect "what a slow reader read before the update is not stored", !!stored, false
expect "the next reader sees the update", articles.read(cache), "second title"

cache.delete(KEY)
articles.loads = 0
titles = Array.new(20) { Thread.new { articles.read(connect) } }.map(&:value)
expect "twenty readers at once, one load", [titles.uniq, articles.loads], [["second title"], 1]
