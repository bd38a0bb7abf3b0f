// Writes and reads rows with spymemcached: Rows.java text|binary PORT[,PORT] PREFIX. With two ports, each call goes
// to another server than the one before. Ends with status 1 on a surprise.

import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import net.spy.memcached.AddrUtil;
import net.spy.memcached.BinaryConnectionFactory;
import net.spy.memcached.CASResponse;
import net.spy.memcached.DefaultConnectionFactory;
import net.spy.memcached.MemcachedClient;
import net.spy.memcached.internal.OperationFuture;

public class Rows {
  static final List<MemcachedClient> clients = new ArrayList<>();
  static int turn = 0;

  /** The client of the next server. */
  static MemcachedClient next() {
    return clients.get(++turn % clients.size());
  }

  static void expect(String name, Object actual, Object expected) {
    if (Objects.equals(actual, expected)) return;
    System.err.println(name + ": " + actual + " instead of " + expected);
    System.exit(1);
  }

  public static void main(String[] args) {
    try {
      work(args);
    } catch (Exception error) {
      // The client's thread would keep the process alive.
      error.printStackTrace();
      System.exit(1);
    }
  }

  static void work(String[] args) throws Exception {
    for (String port : args[1].split(",")) {
      List<InetSocketAddress> servers = AddrUtil.getAddresses("127.0.0.1:" + port);
      clients.add(new MemcachedClient(
          args[0].equals("binary") ? new BinaryConnectionFactory() : new DefaultConnectionFactory(), servers));
    }
    String prefix = args[2], a = prefix + "a", absent = prefix + "absent", number = prefix + "number";
    expect("get, missing", next().get(absent), null);
    expect("set", next().set(a, 0, "one").get(), true);
    expect("get", next().get(a), "one");
    expect("get again", next().get(a), "one");
    expect("add, present", next().add(a, 0, "two").get(), false);
    expect("replace", next().replace(a, 0, "three").get(), true);
    expect("append", next().append(a, "x").get(), true);
    expect("prepend", next().prepend(a, "y").get(), true);
    expect("get after append and prepend", next().get(a), "ythreex");
    long id = next().gets(a).getCas();
    expect("cas, right id", next().cas(a, id, "new"), CASResponse.OK);
    expect("cas, used id", next().cas(a, id, "old"), CASResponse.EXISTS);
    expect("get after cas", next().get(a), "new");
    next().set(number, 0, "10").get();
    expect("incr", next().incr(number, 5), 15L);
    expect("decr", next().decr(number, 20), 0L);
    List<OperationFuture<Boolean>> stored = new ArrayList<>();
    List<String> keys = new ArrayList<>(List.of(absent));
    for (int count = 1; count < 200; count++) {
      keys.add(prefix + "key-" + count);
      stored.add(next().set(prefix + "key-" + count, 0, "v".repeat(count * 7)));
    }
    for (OperationFuture<Boolean> one : stored) expect("set of many", one.get(), true);
    expect("get of many", next().getBulk(keys).size(), 199);
    expect("one of many", next().get(prefix + "key-199"), "v".repeat(199 * 7));
    expect("delete", next().delete(a).get(), true);
    expect("get, deleted", next().get(a), null);
    expect("delete, missing", next().delete(absent).get(), false);
    expect("set, last", next().set(a, 0, "last").get(), true);
    for (MemcachedClient client : clients) client.shutdown();
    System.exit(0);
  }
}
