/** The protocols that a listener understands. `auto`: the first byte of a connection decides. */
export type WireProtocol = "auto" | "ascii" | "binary";

/** The options of TLS (`-Z`): plain, so that they can be posted to workers. */
export interface TlsSettings {
  /** Path of the certificate chain, in PEM. */
  readonly chainCert: string;
  /** Path of the private key; may equal `chainCert`. */
  readonly key: string;
  /** 1: PEM, 2: DER. */
  readonly keyFormat: number;
  /** OpenSSL's bits: 0: ask for no client certificate, 1: ask, 3: require, 7: require once. */
  readonly verifyMode: number;
  /** OpenSSL's list of ciphers up to TLS 1.2; null: its default. */
  readonly ciphers: string | null;
  /** Path of the authorities of client certificates, in PEM. */
  readonly caCert: string | null;
  /** `-o ssl_wbuf_size` in bytes. */
  readonly writeBufferBytes: number;
  readonly sessionCache: boolean;
  readonly kernelTls: boolean;
  /** 0 to 3: TLS 1.0 to 1.3. */
  readonly minVersion: number;
  /** A connection whose handshake takes longer is closed. */
  readonly handshakeTimeoutSec: number;
}

/**
 * The options that the protocols need: plain, so that they can be posted to
 * workers. Values of the option table; what the store was made with stands in `StoreOptions`. What
 * commands may change later stands in `Tunables`.
 */
export interface Settings {
  /** Our own version, like `0.1.0`. */
  readonly version: string;
  /** The runtime in one word, like `deno-2.9.6`. */
  readonly runtime: string;
  readonly pid: number;
  readonly connLimit: number;
  /** 0: no TCP. The port that was really bound. */
  readonly tcpPort: number;
  /** 0: no UDP. */
  readonly udpPort: number;
  /** The addresses as given with `-l`, or the default; null: a Unix socket instead. */
  readonly listenAddresses: string | null;
  /** Path of the Unix socket; "": none. */
  readonly unixSocket: string;
  /** Permission bits of the Unix socket, like 0o700. */
  readonly unixMask: number;
  /** 0..3, as counted from -v. */
  readonly verbose: number;
  /** `-A` */
  readonly enableShutdown: boolean;
  /** `--test-commands` */
  readonly testCommands: boolean;
  /** Null without `-Z`. */
  readonly tls: TlsSettings | null;
  readonly threads: number;
  /** `-D`: ends the prefix of a key; one character. */
  readonly statsDelimiter: string;
  /** Whether prefixes are counted from the start. */
  readonly detailEnabled: boolean;
  /** `-R`: how many small requests make a slice. */
  readonly maxReqsPerEvent: number;
  readonly listenBacklog: number;
  readonly wireProtocol: WireProtocol;
  readonly maxconnsFast: boolean;
  /** 0: never. */
  readonly idleTimeoutSec: number;
  /** 0: never. */
  readonly lockIdleTimeoutSec: number;
  /** `-F` */
  readonly disableFlushAll: boolean;
  /** `--state-dir`; "": none. */
  readonly stateDir: string;
  /** `--snapshot`; "": none. */
  readonly snapshotPath: string;
  /** `--token-quarantine`: how long the server stores nothing after a start that has forgotten its update tokens. */
  readonly tokenQuarantineSec: number;
  /** `--token-recover` */
  readonly tokenRecover: string;
  /** `--allow-token-drop` */
  readonly allowTokenDrop: boolean;
  /** `-X` */
  readonly disableDumping: boolean;
  /** `-W` */
  readonly disableWatch: boolean;
  /** `-z`: client flags that mark a lease, and which of their bits count. Mask 0: no getss and deletess. */
  readonly leaseFlag: number;
  readonly leaseMask: number;
  /** `--lease-time` */
  readonly leaseTimeSec: number;
  /** `-Y`: path of the users' file; "": no authentication. */
  readonly authFile: string;
  /** `-S`: peers may authenticate by SASL, in the binary protocol. */
  readonly enableSasl: boolean;
  /** Whether the serving threads use io_uring. Known when the transport is bound. */
  readonly usesIoUring: boolean;
  /** `-o compat`: whose rules hold where memcached and yrmcds contradict each other. */
  readonly compat: "memcached" | "yrmcds";
  /** `-o lock_reply`: how a change of a key is refused that another connection has locked. */
  readonly lockReply: "locked" | "client_error";
  /** `-o lru_maintainer`: whether `reclaimed` counts what the sweep removed; otherwise `crawler_reclaimed` does. */
  readonly lruMaintainer: boolean;
}
