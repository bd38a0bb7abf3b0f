<?php
// Writes and reads rows with php-memcached: rows.php text|binary PORT[,PORT] PREFIX.
// With two ports, each call goes to another server than the one before. Ends with status 1 on a surprise.
[, $protocol, $ports, $prefix] = $argv;

// Clients of several servers, in turns.
class Turns
{
    private int $turn = 0;

    public function __construct(private array $clients) {}

    public function __call(string $name, array $arguments): mixed
    {
        $this->turn = ($this->turn + 1) % count($this->clients);
        return $this->clients[$this->turn]->$name(...$arguments);
    }
}

$client = new Turns(array_map(function (string $port) use ($protocol, $prefix): Memcached {
    $client = new Memcached();
    $client->setOption(Memcached::OPT_BINARY_PROTOCOL, $protocol === "binary");
    $client->setOption(Memcached::OPT_PREFIX_KEY, $prefix);
    $client->setOption(Memcached::OPT_COMPRESSION, false);
    $client->addServer("127.0.0.1", (int) $port);
    return $client;
}, explode(",", $ports)));

function expect(string $name, mixed $actual, mixed $expected): void
{
    if ($actual === $expected) {
        return;
    }
    fwrite(STDERR, "$name: " . var_export($actual, true) . " instead of " . var_export($expected, true) . "\n");
    exit(1);
}

expect("get, missing", $client->get("absent"), false);
expect("set", $client->set("a", "one"), true);
expect("get", $client->get("a"), "one");
expect("get again", $client->get("a"), "one");
expect("add, present", $client->add("a", "two"), false);
expect("replace", $client->replace("a", "three"), true);
expect("append", $client->append("a", "x"), true);
expect("prepend", $client->prepend("a", "y"), true);
$found = $client->get("a", null, Memcached::GET_EXTENDED);
expect("get after append and prepend", $found["value"], "ythreex");
expect("cas, right id", $client->cas($found["cas"], "a", "new"), true);
expect("cas, used id", $client->cas($found["cas"], "a", "old"), false);
expect("get after cas", $client->get("a"), "new");
$client->set("number", "10");
expect("increment", $client->increment("number", 5), 15);
expect("decrement", $client->decrement("number", 20), 0);
$many = [];
for ($count = 1; $count < 30; $count++) {
    $many["key-$count"] = str_repeat("v", $count * 37);
}
expect("setMulti", $client->setMulti($many), true);
$got = $client->getMulti([...array_keys($many), "absent"]);
ksort($many);
ksort($got);
expect("getMulti", $got, $many);
expect("delete", $client->delete("a"), true);
expect("get, deleted", $client->get("a"), false);
expect("delete, missing", $client->delete("absent"), false);
expect("an expiry time is refused", $client->set("a", "x", 60), false);
expect("set, last", $client->set("a", "last"), true);
