// The Java program of 13-with-redisson.md; see orders.cc.
// [java]
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

public class Orders {
  private static final Path SHIPPED = Path.of("shipped.txt");
  private final RLock lock;
  private final RSemaphore printers;

  Orders(RedissonClient redisson) {
    lock = redisson.getLock("orders:shipped");
    printers = redisson.getSemaphore("orders:printers");
    printers.trySetPermits(2);
  }

  // At most two programs print at the same time.
  void printLabel() throws Exception {
    printers.acquire();
    try {
      Thread.sleep(1);
    } finally {
      printers.release();
    }
  }

  // Returns how many orders have been shipped, or -1 if the lock was busy for ten seconds.
  int ship() throws Exception {
    if (!lock.tryLock(10, 60, TimeUnit.SECONDS)) return -1;
    try {
      int shipped = Files.exists(SHIPPED) ? Integer.parseInt(Files.readString(SHIPPED)) : 0;
      Files.writeString(SHIPPED, Integer.toString(++shipped));
      return shipped;
    } finally {
      lock.unlock();
    }
  }

  public static void main(String[] args) throws Exception {
    Config config = new Config();
    config.useSingleServer().setAddress(args.length > 0 ? args[0] : "redis://127.0.0.1:6379");
    RedissonClient redisson = Redisson.create(config);
    try {
      Orders orders = new Orders(redisson);
      int shipped = 0;
      for (int i = 0; i < 25 && shipped >= 0; ++i) {
        orders.printLabel();
        shipped = orders.ship();
      }
      System.out.println(shipped + " orders have been shipped");
    } finally {
      redisson.shutdown();
    }
  }
}
// [/java]
