#ifndef REDLATCH_TESTS_SUPPORT_PROXY_LISTENER_H_
#define REDLATCH_TESTS_SUPPORT_PROXY_LISTENER_H_

#include <sys/socket.h>

#include <cstdint>
#include <functional>
#include <string>

#include "src/base/unique_fd.h"
#include "tests/support/proxy_links.h"
#include "tests/support/tcp_proxy.h"

namespace redlatch::support::proxy {

Address TcpAddress(const std::string& numeric_host, int port);
Address UnixAddress(const std::string& path);

// Where a proxy's clients connect. Runs on the proxy's thread, as Links.
class Listener : public EventHandler {
 public:
  using OnClient = std::function<void(base::UniqueFd)>;

  // Serves at once. `epoll` outlives this object.
  Listener(int epoll, const Address& address, OnClient on_client);
  ~Listener() override;

  void SetArrival(Arrival arrival);
  void OnEvents(uint32_t events) override;

 private:
  void Open();
  void Watch(bool on);
  void FillBacklog();
  void EmptyBacklog();

  const int epoll_;
  const Address address_;
  const OnClient on_client_;
  Arrival arrival_ = Arrival::kServe;
  base::UniqueFd socket_;
  base::UniqueFd filler_;  // occupies the backlog while connections are to hang
};

}  // namespace redlatch::support::proxy

#endif  // REDLATCH_TESTS_SUPPORT_PROXY_LISTENER_H_
