# Drives a server that asks for passwords with Dalli over SASL: auth_dalli.rb PORT USER PASSWORD.
require "dalli"

port, user, password = ARGV

def client(port, user, password)
  Dalli::Client.new("127.0.0.1:#{port}", protocol: :binary, username: user, password: password, socket_timeout: 10)
end

def expect(what, found, wanted)
  abort "#{what}: #{found.inspect} instead of #{wanted.inspect}" unless found == wanted
end

good = client(port, user, password)
50.times do |index|
  good.set("auth-dalli-#{index}", index)
  expect("get", good.get("auth-dalli-#{index}"), index)
end
begin
  client(port, user, "#{password}x").set("auth-intruder", 1)
  abort "stored with a wrong password"
rescue Dalli::DalliError
  expect("get", good.get("auth-intruder"), nil)
end
