// A network between contenders and a server, which delays bytes in both directions.
//
//   delay_proxy PORT MICROSECONDS
//
// It prints the port that leads to PORT, and ends with its standard input.
#include <cstdio>
#include <cstdlib>

#include "absl/time/time.h"
#include "tests/support/tcp_proxy.h"

int main(int argc, char** argv) {
  using redlatch::support::Direction;
  if (argc != 3) {
    std::fputs("only run.py starts it\n", stderr);
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
