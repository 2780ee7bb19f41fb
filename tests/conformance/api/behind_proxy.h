// Clients whose requests and replies are lost, or late, on their way.
#ifndef REDLATCH_TESTS_CONFORMANCE_API_BEHIND_PROXY_H_
#define REDLATCH_TESTS_CONFORMANCE_API_BEHIND_PROXY_H_

#include <functional>
#include <memory>
#include <utility>

#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "tests/conformance/api/conformance.h"
#include "tests/conformance/api/recorder.h"
#include "tests/support/tcp_proxy.h"

namespace redlatch::conformance {

using support::Direction;
using support::Scope;

// A fixture of the kind of Base, with a proxy before its server.
template <class Base>
class BehindProxy : public Base {
 protected:
  Client NewFarClient(ClientOptions options = {}) {
    if (options.observer == nullptr) options.observer = heard_;
    return this->ClientAt(this->UrlThrough(proxy_), "command_timeout=150ms", std::move(options));
  }
  // The next reply is lost: without a sound, or with its connection, so that the client knows at
  // once that it will not come.
  void LoseNextReply(bool silently = false) {
    silently ? proxy_.DropReplies(1) : proxy_.CutAfter(Direction::kToClient, 0);
  }
  // Requests that are sent from now on wait in the proxy, while their sender is told that its
  // connection is over; what it sends after that passes.
  void DelayRequestsOf(Crew& crew, std::function<void()> call) {
    proxy_.Hold(Direction::kToServer, Scope::kExisting);
    crew.Start(std::move(call));
    EXPECT_TRUE(AwaitHeldBack());
    proxy_.HalfClose(Direction::kToClient);
  }
  bool AwaitHeldBack() {
    return proxy_.Await([](const support::ProxyStats& stats) { return stats.bytes_waiting > 0; });
  }
  void DeliverWhatWaits() {
    proxy_.ReleaseHeld();
    EXPECT_TRUE(
        proxy_.Await([](const support::ProxyStats& stats) { return stats.bytes_waiting == 0; }));
  }
  // That what comes late finds that its sender has given up.
  bool AwaitTombstone() {
    return Await([this] { return !this->server().Command({"KEYS", "*.gone.*"}).elements.empty(); });
  }

  Proxies proxy_{this->server().ports()};
  const std::shared_ptr<Recorder> heard_ = std::make_shared<Recorder>();
  const Client near_ = this->NewClient();
};

}  // namespace redlatch::conformance

#endif  // REDLATCH_TESTS_CONFORMANCE_API_BEHIND_PROXY_H_
