#include "tests/support/fake_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/support/fatal.h"

namespace redlatch::support {
namespace {

std::string Array(const std::vector<std::string>& texts) {
  std::string array = absl::StrCat("*", texts.size(), "\r\n");
  for (const std::string& each : texts) array += FakeServer::Bulk(each);
  return array;
}

}  // namespace

FakeServer::FakeServer(Answer answer)
    : answer_(std::move(answer)),
      listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
      stop_(eventfd(0, EFD_CLOEXEC)) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  CheckErrno(bind(listener_.get(), generic, size) == 0, "bind");
  CheckErrno(listen(listener_.get(), 128) == 0, "listen");
  CheckErrno(getsockname(listener_.get(), generic, &size) == 0, "getsockname");
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { Run(); });
}

FakeServer::~FakeServer() {
  const uint64_t one = 1;
  CheckErrno(write(stop_.get(), &one, sizeof one) == sizeof one, "eventfd");
  thread_.join();
}

std::string FakeServer::Bulk(std::string_view text) {
  return absl::StrCat("$", text.size(), "\r\n", std::string(text), "\r\n");
}

std::string FakeServer::url() const { return "redis://127.0.0.1:" + std::to_string(port_); }

int FakeServer::connections() const {
  const base::MutexLock lock(mu_);
  return accepted_;
}

std::optional<std::string> FakeServer::Polite(const Asked& asked) {
  const std::string& verb = asked.command.at(0);
  if (verb == "PING") return "+PONG\r\n";
  if (verb == "HELLO")
    return "*4\r\n" + Bulk("mode") + Bulk("standalone") + Bulk("role") + Bulk("master");
  if (verb == "INFO") {
    return Bulk(
        "redis_version:7.0.15\r\nredis_mode:standalone\r\nmaxmemory:0\r\n"
        "maxmemory_policy:noeviction\r\nrole:master\r\n");
  }
  if (verb == "EVAL") return ":1\r\n";
  if (verb == "EVALSHA") return "-NOSCRIPT No matching script. Please use EVAL.\r\n";
  if (verb == "SUBSCRIBE")
    return ">3\r\n$9\r\nsubscribe\r\n" + Bulk(asked.command.at(1)) + ":1\r\n";
  if (verb == "UNSUBSCRIBE") {
    return ">3\r\n$11\r\nunsubscribe\r\n" + Bulk(asked.command.at(1)) + ":0\r\n";
  }
  return "+OK\r\n";
}

void FakeServer::Run() {
  for (;;) {
    std::vector<pollfd> watched = {{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const Connection& each : open_) watched.push_back({each.fd.get(), POLLIN, 0});
    CheckErrno(poll(watched.data(), watched.size(), -1) > 0, "poll");
    if (watched[0].revents != 0) return;
    size_t at = 2;
    for (auto next = open_.begin(); next != open_.end(); ++at) {
      const auto each = next++;
      if (watched[at].revents != 0 && !Serve(*each)) open_.erase(each);
    }
    if (watched[1].revents == 0) continue;
    base::UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const int at_once = 1;  // as servers do
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
    if (!fd.valid()) continue;
    const base::MutexLock lock(mu_);
    open_.push_back({++accepted_, std::move(fd), redis::ReplyParser()});
  }
}

bool FakeServer::Serve(Connection& connection) {
  char buffer[65536];
  const ssize_t got = recv(connection.fd.get(), buffer, sizeof buffer, 0);
  if (got <= 0) return false;
  std::vector<redis::Reply> commands;
  const absl::Status read = connection.parser.Take({buffer, static_cast<size_t>(got)}, commands);
  if (!read.ok()) Fatal("the client sent no command: " + std::string(read.message()));
  for (const redis::Reply& command : commands) {
    Asked asked{.connection = connection.number, .command = {}};
    for (const redis::Reply& word : command.elements) asked.command.push_back(word.text);
    const std::optional<std::string> said = answer_(asked);
    if (!said.has_value()) return false;
    if (send(connection.fd.get(), said->data(), said->size(), MSG_NOSIGNAL) < 0) return false;
    if (asked.hang_up) return false;
  }
  return true;
}

FakeClusterNode::FakeClusterNode(FakeServer::Answer answer)
    : answer_(std::move(answer)),
      server_([this](const FakeServer::Asked& asked) { return Answer(asked); }) {
  port_ = std::stoi(server_.url().substr(server_.url().rfind(':') + 1));
  owner_ = port_.load();
}

std::string FakeClusterNode::address() const { return absl::StrCat("127.0.0.1:", port_.load()); }

std::optional<std::string> FakeClusterNode::Answer(const FakeServer::Asked& asked) const {
  const auto bulk = FakeServer::Bulk;
  const std::string& verb = asked.command[0];
  if (verb == "CLUSTER" && asked.command[1] == "SLOTS") {
    return absl::StrCat("*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n", bulk("127.0.0.1"), ":", owner_.load(),
                        "\r\n", bulk("id"));
  }
  if (verb == "CLUSTER" && asked.command[1] == "INFO") {
    return bulk("cluster_state:ok\r\ncluster_current_epoch:1\r\n");
  }
  if (verb == "CLUSTER") return "-ERR unknown subcommand\r\n";
  if (verb == "INFO") {
    return bulk(
        "redis_version:7.0.15\r\nredis_mode:cluster\r\nmaxmemory:0\r\n"
        "maxmemory_policy:noeviction\r\nrole:master\r\n");
  }
  if (verb == "HELLO") {
    return "*4\r\n" + bulk("mode") + bulk("cluster") + bulk("role") + bulk("master");
  }
  if (verb == "TIME") return "*2\r\n" + bulk("1") + bulk("1");
  return answer_(asked);
}

FakeSentinel::FakeSentinel(std::function<int()> names, int epoch)
    : server_([this, names = std::move(names), epoch](const FakeServer::Asked& asked) {
        return Answer(asked, names(), epoch);
      }) {}

std::string FakeSentinel::address() const {
  return server_.url().substr(std::string("redis://").size());
}

std::optional<std::string> FakeSentinel::Answer(const FakeServer::Asked& asked, int port,
                                                int epoch) {
  if (asked.command[0] != "SENTINEL") return FakeServer::Polite(asked);
  const std::string& what = asked.command[1];
  if (what == "GET-MASTER-ADDR-BY-NAME") {
    ++asked_;
    return port == 0 ? "*-1\r\n" : Array({"127.0.0.1", std::to_string(port)});
  }
  if (what == "MASTER") return Array({"name", "m", "config-epoch", std::to_string(epoch)});
  if (what == "MASTERS") return "*1\r\n" + Array({"name", "another"});
  if (what == "MYID") return FakeServer::Bulk(absl::StrCat("id of ", asked.connection, address()));
  return "*0\r\n";
}

}  // namespace redlatch::support
