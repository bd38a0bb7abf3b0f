/**
 * Tools that tests need, beside Deno, and at most how many tests need each: the gate fails when more are ignored. The
 * last word of some is the reason rather than a tool.
 */
export const KNOWN_NEEDS: Readonly<Record<string, number>> = {
  "PostgreSQL": 232, // as root: with runuser
  "IPv6": 1,
  "bash": 10,
  "buildah": 1,
  "chromium": 12,
  "dalli-3.2.8": 2,
  "dalli-5.2.1": 2,
  "dalli-binary": 2,
  "fish": 2,
  "gomemcache": 3,
  "io_uring": 20,
  "mandoc": 1,
  "mariadb": 1,
  "memcached": 33,
  "memjs": 2,
  "mount": 7,
  "native": 51, // 18 are configurations, which not all need it
  "network namespaces": 2,
  "newer peers": 1,
  "npm": 1,
  "nutcracker": 3,
  "openssl": 63, // 18 are configurations, which not all need it
  "php-memcached-binary": 2,
  "php-memcached-text": 2,
  "promtool": 2,
  "pylibmc": 4,
  "pylibmc-binary": 2,
  "pylibmc-text": 2,
  "pymemcache": 4,
  "pymemcache's HashClient": 1,
  "python3": 2,
  "python3's sqlite3": 1,
  "root": 1,
  "saslpasswd2": 10,
  "script": 3,
  "spymemcached-binary": 2,
  "spymemcached-text": 3,
  "the earlier release": 2, // a clone without its history
  "strace, setpriv and systemd-analyze": 1,
  "systemd-analyze": 1,
  "yrmcds": 6,
  "zsh": 1,
};
/** Tests that are ignored for no tool: a transcript without a session that its transport can play. */
export const KNOWN_OTHERS = 12;
