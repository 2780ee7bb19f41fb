// A network between contenders and a server: what is said either way arrives so much later.
//
//   delay_proxy PORT MICROSECONDS
//
// Prints the port that leads to PORT, and ends with its standard input.
#include <cstdio>
#include <cstdlib>

#include "absl/time/time.h"
#include "tests/support/tcp_proxy.h"

int main(int argc, char** argv) {
  using redlatch::support::Direction;
  if (argc != 3) {
    std::fputs("run.py starts it, nobody else\n", stderr);
    return 2;
  }
  redlatch::support::TcpProxy proxy({.port = std::atoi(argv[1])});
  const absl::Duration delay = absl::Microseconds(std::atol(argv[2]));
  proxy.Delay(Direction::kToServer, delay);
  proxy.Delay(Direction::kToClient, delay);
  std::printf("%d\n", proxy.port());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}
