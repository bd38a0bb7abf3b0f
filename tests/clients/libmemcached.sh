#!/bin/sh
# Drives a server with libmemcached's tools: libmemcached.sh PORT PREFIX [alone]. Ends with another status than 0 on a surprise.
set -eu
servers=--servers=127.0.0.1:$1
prefix=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

fail() {
  echo "$1" >&2
  exit 1
}

for protocol in "" --binary; do
  for size in 1 100 5000 1000000; do
    head -c $size /dev/urandom >"$prefix-$size"
  done
  memccp $protocol $servers --set "$prefix"-*
  memcexist $protocol $servers "$prefix-1" "$prefix-1000000" || fail "memcexist: stored, and not there"
  for size in 1 100 5000 1000000; do
    memccat $protocol $servers --file=out "$prefix-$size"
    cmp -s out "$prefix-$size" || fail "memccat $protocol: another value of $size bytes"
  done
  memctouch $protocol $servers --expire=100 "$prefix-100"
  memcrm $protocol $servers "$prefix-1"
  if memcexist $protocol $servers "$prefix-1" 2>errors; then fail "memcexist $protocol: there after memcrm"; fi
done
memcping $servers
memcstat $servers | grep -q "curr_items: " || fail "memcstat: no curr_items"

[ $# -gt 2 ] || exit 0
memcdump $servers | grep -q "^$prefix-100\$" || fail "memcdump: a key is missing"
for protocol in "" --binary; do
  memcslap $protocol $servers --concurrency=4 --execute-number=200 --initial-load=200 --test=get >out
  grep -q Time out || fail "memcslap $protocol: $(cat out)"
done
memcflush $servers
if memcexist $servers "$prefix-100" 2>errors; then fail "memcexist: there after memcflush"; fi
