// Writes and reads rows with spymemcached: Rows.java text|binary PORT PREFIX. Ends with status 1 on a surprise.

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
    List<InetSocketAddress> servers = AddrUtil.getAddresses("127.0.0.1:" + args[1]);
    MemcachedClient client = new MemcachedClient(
        args[0].equals("binary") ? new BinaryConnectionFactory() : new DefaultConnectionFactory(), servers);
    String prefix = args[2], a = prefix + "a", absent = prefix + "absent", number = prefix + "number";
    expect("get, missing", client.get(absent), null);
    expect("set", client.set(a, 0, "one").get(), true);
    expect("get", client.get(a), "one");
    expect("get again", client.get(a), "one");
    expect("add, present", client.add(a, 0, "two").get(), false);
    expect("replace", client.replace(a, 0, "three").get(), true);
    expect("append", client.append(a, "x").get(), true);
    expect("prepend", client.prepend(a, "y").get(), true);
    expect("get after append and prepend", client.get(a), "ythreex");
    long id = client.gets(a).getCas();
    expect("cas, right id", client.cas(a, id, "new"), CASResponse.OK);
    expect("cas, used id", client.cas(a, id, "old"), CASResponse.EXISTS);
    expect("get after cas", client.get(a), "new");
    client.set(number, 0, "10").get();
    expect("incr", client.incr(number, 5), 15L);
    expect("decr", client.decr(number, 20), 0L);
    List<OperationFuture<Boolean>> stored = new ArrayList<>();
    List<String> keys = new ArrayList<>(List.of(absent));
    for (int count = 1; count < 200; count++) {
      keys.add(prefix + "key-" + count);
      stored.add(client.set(prefix + "key-" + count, 0, "v".repeat(count * 7)));
    }
    for (OperationFuture<Boolean> one : stored) expect("set of many", one.get(), true);
    expect("get of many", client.getBulk(keys).size(), 199);
    expect("one of many", client.get(prefix + "key-199"), "v".repeat(199 * 7));
    expect("delete", client.delete(a).get(), true);
    expect("get, deleted", client.get(a), null);
    expect("delete, missing", client.delete(absent).get(), false);
    expect("set, last", client.set(a, 0, "last").get(), true);
    client.shutdown();
    System.exit(0);
  }
}
