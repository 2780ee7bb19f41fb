#include "tests/support/fake_sentinel.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace redlatch::support {
namespace {

std::string Bulk(const std::string& text) {
  return absl::StrCat("$", text.size(), "\r\n", text, "\r\n");
}

std::string Array(const std::vector<std::string>& texts) {
  std::string array = absl::StrCat("*", texts.size(), "\r\n");
  for (const std::string& each : texts) array += Bulk(each);
  return array;
}

}  // namespace

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
  if (what == "MYID") return Bulk(absl::StrCat("id of ", asked.connection, address()));
  return "*0\r\n";
}

}  // namespace redlatch::support
