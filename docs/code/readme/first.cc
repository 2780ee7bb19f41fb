// Output: ours, with fencing token [0-9]{16}
// [first]
#include <iostream>
#include <mutex>

#include "redlatch/client.h"
#include "redlatch/simple_lock.h"

int main() {
  auto client = redlatch::Client::Connect("embedded:").value();  // or redis://host
  redlatch::SimpleLock orders(client, "orders:42");
  std::scoped_lock guard(orders);  // waits for its turn, and releases at the brace
  std::cout << "ours, with fencing token " << orders.current().fencing_token().value() << "\n";
}
// [/first]
