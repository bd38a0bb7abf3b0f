#!/bin/sh
# leased, a memcached-compatible cache server: Deno, the sources and their packages in one file, made by
# `deno task bundle`. The first start unpacks them into a folder of the user's cache, or of LEASED_HOME if it is
# set; later starts find them there. Needs sh, tail, tar and gzip, and no network.
set -eu

contents=@CONTENTS@
home=${LEASED_HOME:-${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}/leased}
case $home in
  /leased)
    echo "leased: no folder to unpack into: set LEASED_HOME" >&2
    exit 78
    ;;
esac
folder=$home/$contents

if [ ! -d "$folder" ]; then
  mkdir -p "$home"
  unpacked=$(mktemp -d "$home/.unpack-XXXXXXXX")
  trap 'rm -rf "$unpacked"' EXIT
  trap 'exit 1' HUP INT TERM
  tail -n +@PAYLOAD_LINE@ "$0" | tar -xz -f - -C "$unpacked"
  # Another start may have been faster: then its folder is used.
  mv "$unpacked" "$folder" 2>/dev/null || [ -d "$folder" ]
  rm -rf "$folder/${unpacked##*/}" "$unpacked"
  trap - EXIT HUP INT TERM
fi

export DENO_DIR="$folder/cache" DENO_NO_UPDATE_CHECK=1 MALLOC_ARENA_MAX=1
exec "$folder/deno" run --quiet --cached-only --config="$folder/deno.json" @FLAGS@ "$folder/main.ts" "$@"
