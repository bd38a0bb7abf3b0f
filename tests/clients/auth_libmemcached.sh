#!/bin/sh
# Drives a server that asks for passwords with libmemcached's tools over SASL: auth_libmemcached.sh PORT USER PASSWORD.
set -eu
servers="--servers=127.0.0.1:$1 --binary"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
head -c 5000 /dev/urandom >auth-tools
memccp $servers "--username=$2" "--password=$3" --set auth-tools
memccat $servers "--username=$2" "--password=$3" --file=out auth-tools
cmp -s out auth-tools || { echo "memccat: another value" >&2; exit 1; }
if memccat $servers "--username=$2" "--password=$3x" --file=stolen auth-tools >output 2>&1; then
  if cmp -s stolen auth-tools; then echo "memccat: read with a wrong password" >&2; exit 1; fi
fi
