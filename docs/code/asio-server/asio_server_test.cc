// The code of recipes/asio-server.md, and a test that runs it.
#include "docs/code/11-asynchronous/async_acquire.h"
// That must be the first: see there.
#include <unistd.h>

#include <csignal>
#include <thread>

#include "docs/code/expect.h"
#include "gtest/gtest.h"

// [server]
#include <set>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "redlatch/client.h"
#include "redlatch/simple_lock.h"

using boost::asio::ip::tcp;

// Each line from a connection names a seat; the server reserves it and answers. All of this runs on
// the thread that runs the io_context.
class SeatServer {
 public:
  SeatServer(asio::io_context& io, redlatch::Client client, const tcp::endpoint& endpoint)
      : client_(std::move(client)), acceptor_(io, endpoint), sigterm_(io, SIGTERM) {
    sigterm_.async_wait([this](const auto& error, int) {
      if (!error) Stop();
    });
    asio::co_spawn(io, Accept(), asio::detached);
  }
  tcp::endpoint endpoint() const { return acceptor_.local_endpoint(); }

 private:
  // Ends every coroutine, since its next operation on a socket fails. Then io.run() returns.
  void Stop() {
    acceptor_.close();
    for (tcp::socket* const socket : open_) socket->close();
  }

  asio::awaitable<void> Accept() {
    while (true) {
      tcp::socket socket = co_await acceptor_.async_accept(asio::use_awaitable);
      asio::co_spawn(acceptor_.get_executor(), Serve(std::move(socket)), asio::detached);
    }
  }

  asio::awaitable<void> Serve(tcp::socket socket) {
    if (!acceptor_.is_open()) co_return;  // accepted just before Stop()
    open_.insert(&socket);
    const absl::Cleanup forget = [&] { open_.erase(&socket); };
    std::string input;
    while (true) {
      const size_t length = co_await asio::async_read_until(socket, asio::dynamic_buffer(input),
                                                            '\n', asio::use_awaitable);
      const std::string answer = co_await Reserve("seat:" + input.substr(0, length - 1));
      input.erase(0, length);
      co_await asio::async_write(socket, asio::buffer(answer), asio::use_awaitable);
    }
  }

  asio::awaitable<std::string> Reserve(std::string seat) {
    redlatch::SimpleLock lock(client_, seat);
    const redlatch::AcquireOptions options = {.wait = absl::Milliseconds(500)};
    const absl::StatusOr<redlatch::Lease> lease =
        co_await AsyncAcquire(lock, options, asio::use_awaitable);
    if (!lease.ok()) co_return lease.status().ToString() + "\n";
    // ... asynchronous work that reserves the seat, while lease->valid()
    co_return "reserved " + seat + "\n";
  }

  redlatch::Client client_;
  tcp::acceptor acceptor_;
  asio::signal_set sigterm_;
  std::set<tcp::socket*> open_;
};
// [/server]

// [run]
// Serves until SIGTERM.
absl::Status RunServer(const std::string& url, const tcp::endpoint& endpoint) {
  asio::io_context io(1);
  absl::StatusOr<redlatch::Client> client = redlatch::Client::Connect(
      url, {.post = [&io](std::function<void()> work) { asio::post(io, std::move(work)); }});
  if (!client.ok()) return client.status();
  SeatServer server(io, *std::move(client), endpoint);
  io.run();
  return absl::OkStatus();
}
// [/run]

class SeatClient {
 public:
  explicit SeatClient(const tcp::endpoint& server) { socket_.connect(server); }
  std::string Ask(const std::string& seat) {
    asio::write(socket_, asio::buffer(seat + "\n"));
    std::string answer;
    asio::read_until(socket_, asio::dynamic_buffer(answer), '\n');
    return answer;
  }

 private:
  asio::io_context io_;
  tcp::socket socket_{io_};
};

TEST(AsioServerRecipe, ServesConnectionsUntilSigterm) {
  asio::io_context io(1);
  absl::StatusOr<redlatch::Client> client = redlatch::Client::Connect(
      "embedded:",
      {.post = [&io](std::function<void()> work) { asio::post(io, std::move(work)); }});
  ExpectOk(client.status());
  SeatServer server(io, *std::move(client), {asio::ip::address_v4::loopback(), 0});
  std::thread loop([&io] { io.run(); });

  SeatClient one(server.endpoint());
  SeatClient two(server.endpoint());
  const redlatch::Client another_process = Connected();
  redlatch::SimpleLock lock(another_process, "seat:17");
  absl::StatusOr<redlatch::Lease> lease = lock.TryAcquire();
  ExpectOk(lease.status());
  EXPECT_EQ(two.Ask("18"), "reserved seat:18\n");
  EXPECT_EQ(one.Ask("17").substr(0, 18), "DEADLINE_EXCEEDED:");
  ExpectOk(lease->Release());
  EXPECT_EQ(one.Ask("17"), "reserved seat:17\n");
  EXPECT_EQ(two.Ask("17"), "reserved seat:17\n");

  kill(getpid(), SIGTERM);
  loop.join();
}

TEST(AsioServerRecipe, AFailedConnectionIsReported) {
  EXPECT_TRUE(absl::IsInvalidArgument(RunServer("nonsense", {tcp::v4(), 0})));
}
