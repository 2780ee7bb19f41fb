// Redisson in the comparison, with its defaults: see ../contender.h for what it is told and says.

import java.io.RandomAccessFile;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

public final class Contender {
  private static final int MOST_SAMPLES = 4000;
  private static final int WARM = 800; // acquisitions by two threads, before they are measured
  private static final VarHandle INTS =
      MethodHandles.byteBufferViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
  private static final VarHandle LONGS =
      MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

  /** One thread's. */
  private interface Lock {
    void lock(boolean reads) throws Exception;

    void unlock(boolean reads) throws Exception;
  }

  private static final class Tally {
    int count;
    int failed;
    int overlaps;
    double longestMillis;
    final List<Double> samples = new ArrayList<>();
  }

  private final Map<String, String> options = new HashMap<>();
  private final RedissonClient client;
  private final ByteBuffer shared;
  private final int me;

  private Contender(String[] words) throws Exception {
    String url = null;
    for (String word : words) {
      int equals = word.indexOf('=');
      if (word.startsWith("--") && equals > 0) {
        options.put(word.substring(2, equals), word.substring(equals + 1));
      } else {
        url = word;
      }
    }
    me = number("index", 0) + 1;
    Config config = new Config();
    config.setLockWatchdogTimeout(number("lease-ms", 30000));
    config.useSingleServer().setAddress(url);
    client = Redisson.create(config);
    try (RandomAccessFile file = new RandomAccessFile(options.get("shared"), "rw")) {
      shared = file.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, 4096);
    }
  }

  private int number(String name, int fallback) {
    return Integer.parseInt(options.getOrDefault(name, String.valueOf(fallback)));
  }

  private String kind() {
    return options.getOrDefault("kind", "mutex");
  }

  private Lock make(String name) {
    switch (kind()) {
      case "read_write":
        RReadWriteLock both = client.getReadWriteLock(name);
        return new Lock() {
          public void lock(boolean reads) {
            (reads ? both.readLock() : both.writeLock()).lock();
          }

          public void unlock(boolean reads) {
            (reads ? both.readLock() : both.writeLock()).unlock();
          }
        };
      case "semaphore":
        RPermitExpirableSemaphore semaphore = client.getPermitExpirableSemaphore(name);
        semaphore.trySetPermits(number("permits", 4));
        return new Lock() {
          private String permit;

          public void lock(boolean reads) throws Exception {
            permit = semaphore.acquire();
          }

          public void unlock(boolean reads) {
            semaphore.release(permit);
          }
        };
      default:
        RLock lock = kind().equals("fair") ? client.getFairLock(name) : client.getLock(name);
        return new Lock() {
          public void lock(boolean reads) {
            lock.lock();
          }

          public void unlock(boolean reads) {
            lock.unlock();
          }
        };
    }
  }

  private void pairs(Lock lock, long end, Tally tally) throws Exception {
    boolean reentry = number("reentry", 0) != 0;
    if (reentry) {
      lock.lock(false);
    }
    int place = 0;
    for (long begun = System.nanoTime(); begun < end; ) {
      lock.lock(false);
      ++tally.count;
      lock.unlock(false);
      long now = System.nanoTime();
      if (tally.samples.size() < MOST_SAMPLES) {
        tally.samples.add((now - begun) / 1e3);
      } else {
        tally.samples.set(place, (now - begun) / 1e3);
        place = (place + 1) % MOST_SAMPLES;
      }
      begun = now;
    }
    if (reentry) {
      lock.unlock(false);
    }
  }

  private void contend(Lock lock, long end, int thread, Tally tally) throws Exception {
    int section = number("section-us", 0);
    int readsOf100 = number("reads", 0);
    boolean excludes = !kind().equals("semaphore");
    boolean turns = number("turns", 0) != 0;
    int chance = 12345 + me * 64 + thread;
    for (boolean running = true; running; ) {
      chance = chance * 1664525 + 1013904223;
      boolean reads = ((chance >>> 8) % 100) < readsOf100;
      long asked = System.nanoTime();
      lock.lock(reads);
      long now = System.nanoTime(); // CLOCK_MONOTONIC
      tally.longestMillis = Math.max(tally.longestMillis, (Math.min(now, end) - asked) / 1e6);
      running = now < end;
      if (running) {
        ++tally.count;
      }
      if (excludes && !reads) {
        if ((int) INTS.getAndSet(shared, 0, 1) != 0) {
          ++tally.overlaps;
        }
        long released = (long) LONGS.getVolatile(shared, 8);
        int by = (int) INTS.getVolatile(shared, 16);
        if (by != 0 && by != me && readsOf100 == 0 && tally.samples.size() < MOST_SAMPLES) {
          tally.samples.add((now - released) / 1e3);
        }
      } else if (excludes && (int) INTS.getVolatile(shared, 0) != 0) {
        ++tally.overlaps;
      }
      if (section > 0) {
        Thread.sleep(section / 1000, section % 1000 * 1000);
      }
      if (excludes && !reads) {
        INTS.setVolatile(shared, 0, 0);
        INTS.setVolatile(shared, 16, me);
        LONGS.setVolatile(shared, 8, System.nanoTime());
      }
      lock.unlock(reads);
      while (turns && (int) INTS.getVolatile(shared, 0) == 0 && System.nanoTime() < end) {
        Thread.sleep(1);
      }
    }
  }

  private interface Body {
    void run(int thread, long end, Tally tally) throws Exception;
  }

  private static Tally[] inThreads(int threads, Body body, double seconds) throws Exception {
    Tally[] tallies = new Tally[Math.max(1, threads)];
    Arrays.setAll(tallies, i -> new Tally());
    Thread[] running = new Thread[threads];
    long end = System.nanoTime() + (long) (seconds * 1e9);
    for (int i = 0; i < threads; ++i) {
      int index = i;
      running[i] =
          new Thread(
              () -> {
                try {
                  body.run(index, end, tallies[index]);
                } catch (Exception failure) {
                  failure.printStackTrace();
                  Runtime.getRuntime().halt(1);
                }
              });
      running[i].start();
    }
    for (Thread thread : running) {
      thread.join();
    }
    return tallies;
  }

  private static double cpuSeconds() {
    return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
            .getProcessCpuTime()
        / 1e9;
  }

  private static void report(Tally[] tallies, double cpu) {
    int each = Math.max(1, MOST_SAMPLES / tallies.length);
    String counts =
        Arrays.stream(tallies).map(t -> String.valueOf(t.count)).collect(Collectors.joining(", "));
    String samples =
        Arrays.stream(tallies)
            .flatMap(t -> t.samples.stream().limit(each))
            .map(sample -> String.format(Locale.ROOT, "%.1f", sample))
            .collect(Collectors.joining(", "));
    System.out.printf(
        Locale.ROOT,
        "{\"counts\": [%s], \"failed\": %d, \"overlaps\": %d, \"longest_wait_ms\": %.3f, "
            + "\"cpu_s\": %.4f, \"samples_us\": [%s]}%n",
        counts,
        Arrays.stream(tallies).mapToInt(t -> t.failed).sum(),
        Arrays.stream(tallies).mapToInt(t -> t.overlaps).sum(),
        Arrays.stream(tallies).mapToDouble(t -> t.longestMillis).max().orElse(0),
        cpu,
        samples);
    System.out.flush();
  }

  private void run() throws Exception {
    String work = options.get("work");
    boolean own = work.equals("pair");
    if (work.equals("hold")) {
      int count = number("locks", 1);
      for (int i = 0; i < count; ++i) {
        make(count == 1 ? "contended" : "held:" + i).lock(false);
      }
    }
    int threads = number("threads", 1);
    Lock[] locks = new Lock[threads];
    for (int i = 0; i < threads; ++i) {
      locks[i] = make(own ? "own:" + i + ":" + me : "contended");
    }
    // What the first use costs is no part of it; nor is what the JVM compiles meanwhile.
    if (own) {
      inThreads(threads, (i, end, tally) -> pairs(locks[i], end, tally), 1.5);
    } else if (!work.equals("hold")) {
      AtomicInteger left = new AtomicInteger(WARM);
      inThreads(
          2,
          (i, end, tally) -> {
            Lock warm = make("warm:" + me);
            while (System.nanoTime() < end && left.decrementAndGet() > 0) {
              warm.lock(false);
              warm.unlock(false);
            }
          },
          30);
    }
    double before = cpuSeconds();
    System.out.println("ready");
    System.out.flush();
    if (System.in.read() < 0) {
      return;
    }
    double cpu = work.equals("hold") ? before : cpuSeconds();
    double seconds = Double.parseDouble(options.getOrDefault("seconds", "1"));
    Tally[] tallies =
        inThreads(
            work.equals("hold") ? 0 : threads,
            (i, end, tally) -> {
              if (own) {
                pairs(locks[i], end, tally);
              } else {
                contend(locks[i], end, i, tally);
              }
            },
            seconds);
    report(tallies, cpuSeconds() - cpu);
    Runtime.getRuntime().halt(0);
  }

  public static void main(String[] words) throws Exception {
    new Contender(words).run();
  }
}
