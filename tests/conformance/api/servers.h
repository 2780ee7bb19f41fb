// The servers of a test: one, or those of a quorum, to which everything happens at once.
#ifndef REDLATCH_TESTS_CONFORMANCE_API_SERVERS_H_
#define REDLATCH_TESTS_CONFORMANCE_API_SERVERS_H_

#include "tests/support/live_testing.h"
#include "tests/support/testing.h"

namespace redlatch::conformance {

// Each call is for all of them; what it answers is what most of them do.
class Servers {
 public:
  explicit Servers(std::vector<std::unique_ptr<support::RedisServer>> all) : all_(std::move(all)) {}

  std::string url() const {
    return QuorumUrl([](const auto& each) { return each.url(); });
  }
  size_t size() const { return all_.size(); }
  support::RedisServer& first() { return *all_.front(); }
  std::string unix_url() const { return all_.front()->unix_url(); }
  std::string tls_url() const { return all_.front()->tls_url(); }
  int port() const { return all_.front()->port(); }
  // Of a user of theirs.
  std::string UrlOfUser(const std::string& user) const {
    return QuorumUrl([&](const auto& each) {
      return absl::StrCat("redis://", user, "@127.0.0.1:", each.port());
    });
  }

  void Stop() {
    ForEach([](auto& each) { each.Stop(); });
  }
  void Continue() {
    ForEach([](auto& each) { each.Continue(); });
  }
  void Kill() {
    ForEach([](auto& each) { each.Kill(); });
  }
  // None of them is there while another is still what it was.
  void Restart() {
    if (all_.size() > 1) Kill();
    ForEach([](auto& each) { each.Restart(); });
  }

  // Of a list, what is on any of them.
  redis::Reply Command(const std::vector<std::string>& args) {
    redis::Reply first = all_.front()->Command(args);
    for (size_t i = 1; i < all_.size(); ++i) {
      redis::Reply reply = all_[i]->Command(args);
      for (redis::Reply& element : reply.elements) first.elements.push_back(std::move(element));
    }
    return first;
  }
  std::string Text(const std::vector<std::string>& args) {
    return MostOften<std::string>([&](auto& each) { return each.Text(args); });
  }
  int64_t Integer(const std::vector<std::string>& args) {
    return MostOften<int64_t>([&](auto& each) { return each.Integer(args); });
  }
  // On any of them.
  bool Have(const std::string& key) {
    bool any = false;
    ForEach([&](auto& each) { any |= each.Integer({"EXISTS", key}) > 0; });
    return any;
  }
  std::string Info(std::string_view field) { return all_.front()->Info(field); }
  std::vector<std::string> LockKeys() {
    std::map<std::string, size_t> count;
    ForEach([&](auto& each) {
      for (const std::string& key : each.LockKeys()) ++count[key];
    });
    std::vector<std::string> keys;
    for (const auto& [key, servers] : count) {
      if (servers > all_.size() / 2) keys.push_back(key);
    }
    return keys;
  }

 private:
  template <class Function>
  void ForEach(Function function) {
    for (const auto& each : all_) function(*each);
  }
  template <class Value, class Function>
  Value MostOften(Function function) {
    std::map<Value, size_t> count;
    ForEach([&](auto& each) { ++count[function(each)]; });
    Value most{};
    size_t best = 0;
    for (const auto& [value, times] : count) {
      if (times > std::exchange(best, std::max(best, times))) most = value;
    }
    return most;
  }
  template <class Function>
  std::string QuorumUrl(Function url_of) const {
    if (all_.size() == 1) return url_of(*all_.front());
    std::string text = "redlock:";
    for (const auto& each : all_)
      absl::StrAppend(&text, each == all_.front() ? "" : ",", url_of(*each));
    return text;
  }

  const std::vector<std::unique_ptr<support::RedisServer>> all_;
};

}  // namespace redlatch::conformance

#endif  // REDLATCH_TESTS_CONFORMANCE_API_SERVERS_H_
