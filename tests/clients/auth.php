<?php
// Drives a server that asks for passwords with php-memcached over SASL: auth.php PORT USER PASSWORD.
[, $port, $user, $password] = $argv;

function client(string $port, string $user, string $password): Memcached
{
    $client = new Memcached();
    $client->setOption(Memcached::OPT_BINARY_PROTOCOL, true);
    $client->setSaslAuthData($user, $password);
    $client->addServer("127.0.0.1", (int) $port);
    return $client;
}

function expect(string $what, mixed $found, mixed $wanted): void
{
    if ($found === $wanted) return;
    fwrite(STDERR, "$what: " . var_export($found, true) . " instead of " . var_export($wanted, true) . "\n");
    exit(1);
}

$good = client($port, $user, $password);
for ($index = 0; $index < 50; $index++) {
    expect("set", $good->set("auth-php-$index", $index), true);
    expect("get", $good->get("auth-php-$index"), $index);
}
expect("set with a wrong password", client($port, $user, "{$password}x")->set("auth-intruder", 1), false);
expect("get", $good->get("auth-intruder"), false);
