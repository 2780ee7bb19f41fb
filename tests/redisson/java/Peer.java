// Redisson on the other side of redlatch's tests: see tests/support/java_peer.h, which starts this.
//
// It reads requests, `ID TAB THREAD TAB VERB [TAB ARGUMENT]...`, one per line. Each thread executes
// its requests in order. A reply is `ID TAB ok|error TAB BEGAN TAB ENDED TAB VALUE`, with the
// times of System.nanoTime(), which is CLOCK_MONOTONIC. The process ends with its standard input.

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.config.BaseConfig;
import org.redisson.config.BaseMasterSlaveServersConfig;
import org.redisson.config.ClusterServersConfig;
import org.redisson.config.Config;
import org.redisson.config.SentinelServersConfig;
import org.redisson.config.SingleServerConfig;

public final class Peer {
  private static final PrintStream OUT = System.out;

  private final Map<String, ExecutorService> executors = new HashMap<>();
  private final Map<String, Thread> threads = new ConcurrentHashMap<>();
  private final Map<String, RedissonClient> clients = new ConcurrentHashMap<>();
  private final Map<String, Soaker> soakers = new ConcurrentHashMap<>();

  /** The arguments of one request. The first one names a client. */
  private static final class Arguments {
    private final String[] words;

    Arguments(String[] words) {
      this.words = words;
    }

    String text(int index) {
      return words[3 + index];
    }

    int number(int index) {
      return Integer.parseInt(text(index));
    }

    long millis(int index) {
      return Long.parseLong(text(index));
    }
  }

  static RLock lock(RedissonClient client, String kind, String name) {
    switch (kind) {
      case "lock":
        return client.getLock(name);
      case "fair":
        return client.getFairLock(name);
      case "fenced":
        return client.getFencedLock(name);
      case "read":
        return client.getReadWriteLock(name).readLock();
      case "write":
        return client.getReadWriteLock(name).writeLock();
      default:
        throw new IllegalArgumentException("no lock is called " + kind);
    }
  }

  // connect CLIENT URL WATCHDOG_MS FAIR_WAIT_MS SIZE: `small` starts few connections and threads;
  // `default` is Redisson's own configuration.
  private Object connect(Arguments its) {
    Config config = new Config();
    config.setLockWatchdogTimeout(its.millis(2));
    config.setFairLockWaitTimeout(its.millis(3));
    boolean small = its.text(4).equals("small");
    if (small) {
      config.setThreads(4).setNettyThreads(2);
    }
    String[] parts = its.text(1).split("://|/", 3);
    if (parts[0].equals("redis")) {
      SingleServerConfig single = config.useSingleServer().setAddress("redis://" + parts[1]);
      single.setDnsMonitoringInterval(-1);
      if (small) {
        single.setConnectionMinimumIdleSize(2).setConnectionPoolSize(16);
        single.setSubscriptionConnectionPoolSize(4);
      }
      retrySoon(single, small);
    } else if (parts[0].equals("redis-sentinel")) {
      SentinelServersConfig sentinel = config.useSentinelServers().setMasterName(parts[2]);
      for (String address : parts[1].split(",")) {
        sentinel.addSentinelAddress("redis://" + address);
      }
      sentinel.setCheckSentinelsList(false).setScanInterval(200);
      several(sentinel, small);
    } else {
      ClusterServersConfig cluster = config.useClusterServers().setScanInterval(500);
      for (String address : parts[1].split(",")) {
        cluster.addNodeAddress("redis://" + address);
      }
      several(cluster, small);
    }
    clients.put(its.text(0), Redisson.create(config));
    return "";
  }

  private static void several(BaseMasterSlaveServersConfig<?> config, boolean small) {
    if (small) {
      config.setMasterConnectionMinimumIdleSize(2).setMasterConnectionPoolSize(16);
      config.setSlaveConnectionMinimumIdleSize(1).setSlaveConnectionPoolSize(8);
      config.setSubscriptionConnectionPoolSize(4);
    }
    retrySoon(config, small);
  }

  // After a cut, Redisson repeats a command after one to two seconds. Tests do not wait that long.
  private static void retrySoon(BaseConfig<?> config, boolean small) {
    if (small) {
      config.setRetryAttempts(20);
      config.setRetryDelay(attempt -> Duration.ofMillis(200));
      config.setReconnectionDelay(attempt -> Duration.ofMillis(50));
    }
  }

  private Object execute(String verb, Arguments its) throws Exception {
    switch (verb) {
      case "connect":
        return connect(its);
      case "disconnect":
        clients.remove(its.text(0)).shutdown(0, 2, TimeUnit.SECONDS);
        return "";
      case "state": // ... THREAD
        return threads.get(its.text(1)).getState();
      case "soak":
        Soaker soaker = new Soaker(clients.get(its.text(0)), its.text(1), its.text(2), its.text(3));
        soakers.put(its.text(0), soaker);
        return soaker.run(its.number(4), its.millis(5), its.millis(6));
      case "rest": // The soak of that client ends after its present hold.
        soakers.remove(its.text(0)).finish();
        return "";
      default:
        break;
    }
    RedissonClient client = clients.get(its.text(0));
    if (verb.startsWith("semaphore.")) {
      return semaphore(client.getSemaphore(its.text(1)), verb, its);
    }
    if (verb.startsWith("expirable.")) {
      return expirable(client.getPermitExpirableSemaphore(its.text(1)), verb, its);
    }
    if (verb.startsWith("latch.")) {
      return latch(client, verb, its);
    }
    return mutex(client, verb, its);
  }

  // VERB CLIENT KIND NAME ...
  private static Object mutex(RedissonClient client, String verb, Arguments its) throws Exception {
    RLock lock = lock(client, its.text(1), its.text(2));
    switch (verb) {
      case "lock":
        lock.lock();
        return "";
      case "tryLock": // ... WAIT_MS LEASE_MS, which is -1 for the watchdog
        return lock.tryLock(its.millis(3), its.millis(4), TimeUnit.MILLISECONDS);
      case "unlock":
        lock.unlock();
        return "";
      case "pass": // The time at which it had the lock is that of the reply's value.
        lock.lock();
        long had = System.nanoTime();
        lock.unlock();
        return had;
      case "forceUnlock":
        return lock.forceUnlock();
      case "holdCount":
        return lock.getHoldCount();
      case "isHeld":
        return lock.isHeldByCurrentThread();
      case "lockAndGetToken":
        return ((RFencedLock) lock).lockAndGetToken();
      case "getToken":
        return ((RFencedLock) lock).getToken();
      default:
        throw new IllegalArgumentException("no verb is called " + verb);
    }
  }

  // VERB CLIENT NAME ...
  private static Object semaphore(RSemaphore semaphore, String verb, Arguments its)
      throws Exception {
    switch (verb) {
      case "semaphore.trySetPermits":
        return semaphore.trySetPermits(its.number(2));
      case "semaphore.addPermits":
        semaphore.addPermits(its.number(2));
        return "";
      case "semaphore.acquire":
        semaphore.acquire(its.number(2));
        return "";
      case "semaphore.tryAcquire": // ... PERMITS WAIT_MS
        return semaphore.tryAcquire(its.number(2), Duration.ofMillis(its.millis(3)));
      case "semaphore.release":
        semaphore.release(its.number(2));
        return "";
      case "semaphore.availablePermits":
        return semaphore.availablePermits();
      default:
        throw new IllegalArgumentException("no verb is called " + verb);
    }
  }

  private static Object expirable(RPermitExpirableSemaphore semaphore, String verb, Arguments its)
      throws Exception {
    switch (verb) {
      case "expirable.trySetPermits":
        return semaphore.trySetPermits(its.number(2));
      case "expirable.setPermits":
        semaphore.setPermits(its.number(2));
        return "";
      case "expirable.acquire": // returns the permit's id
        return semaphore.acquire();
      case "expirable.tryAcquire": // ... WAIT_MS LEASE_MS; returns the permit's id, or "null"
        return semaphore.tryAcquire(its.millis(2), its.millis(3), TimeUnit.MILLISECONDS);
      case "expirable.tryRelease":
        return semaphore.tryRelease(its.text(2));
      case "expirable.availablePermits":
        return semaphore.availablePermits();
      case "expirable.acquiredPermits":
        return semaphore.acquiredPermits();
      case "expirable.getPermits":
        return semaphore.getPermits();
      default:
        throw new IllegalArgumentException("no verb is called " + verb);
    }
  }

  private static Object latch(RedissonClient client, String verb, Arguments its) throws Exception {
    switch (verb) {
      case "latch.trySetCount":
        return client.getCountDownLatch(its.text(1)).trySetCount(its.millis(2));
      case "latch.countDown":
        client.getCountDownLatch(its.text(1)).countDown();
        return "";
      case "latch.await":
        client.getCountDownLatch(its.text(1)).await();
        return "";
      case "latch.tryAwait":
        return client.getCountDownLatch(its.text(1)).await(its.millis(2), TimeUnit.MILLISECONDS);
      case "latch.getCount":
        return client.getCountDownLatch(its.text(1)).getCount();
      default:
        throw new IllegalArgumentException("no verb is called " + verb);
    }
  }

  private void answer(String[] words) {
    threads.put(words[1], Thread.currentThread());
    long began = System.nanoTime();
    String outcome = "ok";
    String value;
    try {
      value = String.valueOf(execute(words[2], new Arguments(words)));
    } catch (Throwable problem) { // also an Error: the test must learn of it
      outcome = "error";
      value = String.valueOf(problem).replaceAll("\\s", " ");
    }
    long ended = System.nanoTime();
    String reply =
        String.join(
            "\t", words[0], outcome, String.valueOf(began), String.valueOf(ended), value + "\n");
    synchronized (OUT) {
      OUT.print(reply);
      OUT.flush();
    }
  }

  private void run() throws IOException {
    BufferedReader input =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      String[] words = line.split("\t", -1);
      executors
          .computeIfAbsent(words[1], name -> Executors.newSingleThreadExecutor())
          .execute(() -> answer(words));
    }
    Runtime.getRuntime().halt(0);
  }

  public static void main(String[] words) throws IOException {
    new Peer().run();
  }
}
