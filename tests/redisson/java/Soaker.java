// The Java side of the mixed soak. It writes what it sees in the format of
// tests/support/history_check/history_check.md.

import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/** Acquires an object, holds it for a short time and releases it, again and again. */
final class Soaker {
  private static final long PERMIT_LEASE_MS = 3000;

  private final RedissonClient client;
  private final String kind;
  private final String name;
  private final FileOutputStream file; // unbuffered: each line survives a SIGKILL

  private volatile boolean finishing;
  private long clockOffset;
  private String owner;
  private long lost;

  Soaker(RedissonClient client, String kind, String name, String path) throws IOException {
    this.client = client;
    this.kind = kind;
    this.name = name;
    file = new FileOutputStream(path, true);
  }

  void finish() {
    finishing = true;
  }

  /** Returns how often it has acquired the object. The offset is that of CLOCK_BOOTTIME. */
  long run(int process, long offset, long seed) throws Exception {
    clockOffset = offset;
    owner = "process" + process + ".0";
    Random random = new Random(seed);
    long acquired = 0;
    for (int number = 0; !finishing; ++number) {
      String call = process + "." + number;
      String side = kind.equals("read_write") ? (random.nextInt(3) > 0 ? "read" : "write") : kind;
      if (pass(call, side, random)) {
        ++acquired;
      }
      pause(random);
    }
    file.close();
    return acquired;
  }

  private static void pause(Random random) throws InterruptedException {
    TimeUnit.MICROSECONDS.sleep(random.nextInt(2000));
  }

  private boolean pass(String call, String side, Random random) throws Exception {
    note(call, "acquire object=" + name + " owner=" + owner + " waits=yes kind=" + written(side));
    Runnable release;
    try {
      release = acquire(call, side);
    } catch (RuntimeException failure) { // a cut: the server may have executed it
      note(call, "unknown");
      abandon(side);
      return false;
    }
    pause(random);
    note(call, "release");
    try {
      release.run();
      note(call, "released");
    } catch (IllegalMonitorStateException over) {
      ++lost;
    } catch (RuntimeException failure) {
      abandon(side);
    }
    return true;
  }

  private static String written(String side) {
    return switch (side) {
      case "semaphore", "expirable" -> "permits permits=1";
      case "read", "write" -> side;
      default -> "lock";
    };
  }

  private Runnable acquire(String call, String side) throws Exception {
    if (side.equals("semaphore")) {
      RSemaphore semaphore = client.getSemaphore(name);
      semaphore.acquire();
      note(call, "ok");
      return semaphore::release;
    }
    if (side.equals("expirable")) {
      RPermitExpirableSemaphore semaphore = client.getPermitExpirableSemaphore(name);
      String permit = semaphore.acquire(PERMIT_LEASE_MS, TimeUnit.MILLISECONDS);
      note(call, "ok");
      return () -> semaphore.tryRelease(permit);
    }
    RLock lock = Peer.lock(client, side, name);
    if (side.equals("fenced")) {
      long token = ((RFencedLock) lock).lockAndGetToken();
      note(call, "ok token=" + token);
    } else {
      lock.lock();
      note(call, "ok");
    }
    return lock::unlock;
  }

  /** After a call whose outcome is unknown, the thread may have the lock, and no one renews it. */
  private void abandon(String side) throws InterruptedException {
    if (side.equals("semaphore") || side.equals("expirable")) {
      return;
    }
    RLock lock = Peer.lock(client, side, name);
    for (int tries = 0; tries < 20; ++tries) {
      try {
        if (lock.getHoldCount() == 0) {
          return;
        }
        lock.unlock();
      } catch (RuntimeException again) {
        TimeUnit.MILLISECONDS.sleep(50);
      }
    }
  }

  private void note(String call, String event) throws IOException {
    String line = (System.nanoTime() + clockOffset) + " " + call + " " + event + "\n";
    file.write(line.getBytes(StandardCharsets.US_ASCII));
  }
}
