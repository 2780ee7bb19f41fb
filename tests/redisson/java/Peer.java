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
import org.redisson.api.RCountDownLatch;
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
  private record Arguments(String[] words) {
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
    return switch (kind) {
      case "lock" -> client.getLock(name);
      case "fair" -> client.getFairLock(name);
      case "fenced" -> client.getFencedLock(name);
      case "read" -> client.getReadWriteLock(name).readLock();
      case "write" -> client.getReadWriteLock(name).writeLock();
      default -> throw new IllegalArgumentException("no lock is called " + kind);
    };
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
    }
    else {
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

  /** A call that returns nothing. */
  private interface Action {
    void run() throws Exception;
  }

  private static String done(Action action) throws Exception {
    action.run();
    return "";
  }

  private static Object unknown(String verb) {
    throw new IllegalArgumentException("no verb is called " + verb);
  }

  private Object execute(String verb, Arguments its) throws Exception {
    RedissonClient client = clients.get(its.text(0));
    return switch (verb.replaceFirst("\\..*", "")) {
      case "connect" -> connect(its);
      case "disconnect" ->
          done(() -> clients.remove(its.text(0)).shutdown(0, 2, TimeUnit.SECONDS));
      case "state" -> threads.get(its.text(1)).getState(); // ... THREAD
      case "soak" -> {
        Soaker soaker = new Soaker(client, its.text(1), its.text(2), its.text(3));
        soakers.put(its.text(0), soaker);
        yield soaker.run(its.number(4), its.millis(5), its.millis(6));
      }
      // The soak of that client ends after its present hold.
      case "rest" -> done(() -> soakers.remove(its.text(0)).finish());
      case "semaphore" -> semaphore(client.getSemaphore(its.text(1)), verb, its);
      case "expirable" -> expirable(client.getPermitExpirableSemaphore(its.text(1)), verb, its);
      case "latch" -> latch(client.getCountDownLatch(its.text(1)), verb, its);
      default -> mutex(lock(client, its.text(1), its.text(2)), verb, its);
    };
  }

  // VERB CLIENT KIND NAME ...
  private static Object mutex(RLock lock, String verb, Arguments its) throws Exception {
    return switch (verb) {
      case "lock" -> done(lock::lock);
      // ... WAIT_MS LEASE_MS, which is -1 for the watchdog
      case "tryLock" -> lock.tryLock(its.millis(3), its.millis(4), TimeUnit.MILLISECONDS);
      case "unlock" -> done(lock::unlock);
      case "pass" -> { // The time at which it had the lock is that of the reply's value.
        lock.lock();
        long had = System.nanoTime();
        lock.unlock();
        yield had;
      }
      case "forceUnlock" -> lock.forceUnlock();
      case "holdCount" -> lock.getHoldCount();
      case "isHeld" -> lock.isHeldByCurrentThread();
      case "lockAndGetToken" -> ((RFencedLock) lock).lockAndGetToken();
      case "getToken" -> ((RFencedLock) lock).getToken();
      default -> unknown(verb);
    };
  }

  // VERB CLIENT NAME ...
  private static Object semaphore(RSemaphore semaphore, String verb, Arguments its)
      throws Exception {
    return switch (verb) {
      case "semaphore.trySetPermits" -> semaphore.trySetPermits(its.number(2));
      case "semaphore.addPermits" -> done(() -> semaphore.addPermits(its.number(2)));
      case "semaphore.acquire" -> done(() -> semaphore.acquire(its.number(2)));
      // ... PERMITS WAIT_MS
      case "semaphore.tryAcquire" ->
          semaphore.tryAcquire(its.number(2), Duration.ofMillis(its.millis(3)));
      case "semaphore.release" -> done(() -> semaphore.release(its.number(2)));
      case "semaphore.availablePermits" -> semaphore.availablePermits();
      default -> unknown(verb);
    };
  }

  private static Object expirable(RPermitExpirableSemaphore semaphore, String verb, Arguments its)
      throws Exception {
    return switch (verb) {
      case "expirable.trySetPermits" -> semaphore.trySetPermits(its.number(2));
      case "expirable.setPermits" -> done(() -> semaphore.setPermits(its.number(2)));
      case "expirable.acquire" -> semaphore.acquire(); // the permit's id
      // ... WAIT_MS LEASE_MS: the permit's id, or "null"
      case "expirable.tryAcquire" ->
          semaphore.tryAcquire(its.millis(2), its.millis(3), TimeUnit.MILLISECONDS);
      case "expirable.tryRelease" -> semaphore.tryRelease(its.text(2));
      case "expirable.availablePermits" -> semaphore.availablePermits();
      case "expirable.acquiredPermits" -> semaphore.acquiredPermits();
      case "expirable.getPermits" -> semaphore.getPermits();
      default -> unknown(verb);
    };
  }

  private static Object latch(RCountDownLatch latch, String verb, Arguments its) throws Exception {
    return switch (verb) {
      case "latch.trySetCount" -> latch.trySetCount(its.millis(2));
      case "latch.countDown" -> done(latch::countDown);
      case "latch.await" -> done(latch::await);
      case "latch.tryAwait" -> latch.await(its.millis(2), TimeUnit.MILLISECONDS);
      case "latch.getCount" -> latch.getCount();
      default -> unknown(verb);
    };
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
