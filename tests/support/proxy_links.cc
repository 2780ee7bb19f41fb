#include "tests/support/proxy_links.h"

#include <netinet/tcp.h>
#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include "tests/support/fatal.h"

namespace redlatch::support::proxy {
namespace {

// For a Unix socket without effect.
void SetNoDelay(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

// RST, also where a forked child has a copy of the descriptor: close() alone would wait for it.
// A Unix socket knows no RST: its peer sees the end of the stream.
void Reset(base::UniqueFd& fd) {
  if (!fd.valid()) return;
  sockaddr nowhere{};
  nowhere.sa_family = AF_UNSPEC;
  (void)connect(fd.get(), &nowhere, sizeof(nowhere));
  shutdown(fd.get(), SHUT_RDWR);
  fd.Reset();
}

}  // namespace

// One connection: the client's socket, the server's, and a flow each way.
class Links::Link {
 public:
  Link(Links& links, base::UniqueFd client, base::UniqueFd server)
      : links_(links), client_(*this), server_(*this) {
    client_.fd = std::move(client);
    server_.fd = std::move(server);
    for (Side* side : {&client_, &server_}) {
      SetNoDelay(side->fd.get());
      epoll_event event{};
      event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
      event.data.ptr = static_cast<EventHandler*>(side);
      CheckErrno(epoll_ctl(links.epoll_, EPOLL_CTL_ADD, side->fd.get(), &event) == 0, "epoll_ctl");
    }
    ++links.shared_.stats.accepted;
    ++links.shared_.stats.open;
  }

  ~Link() {
    Unwatch();
    --links_.shared_.stats.open;
  }

  Flow& flow(Direction direction) {
    return direction == Direction::kToServer ? to_server_ : to_client_;
  }

  void Reset() {
    Unwatch();
    proxy::Reset(client_.fd);
    proxy::Reset(server_.fd);
  }

  enum class Outcome : uint8_t { kIdle, kMore, kOver };
  Outcome Pump() {
    // The first may reveal the end of the second's sender.
    const Flow::Progress up = to_server_.Pump();
    const Flow::Progress down = to_client_.Pump();
    if (up == Flow::Progress::kReset || down == Flow::Progress::kReset) {
      Reset();
      return Outcome::kOver;
    }
    if (to_server_.finished() && to_client_.finished()) return Outcome::kOver;
    const bool more = up == Flow::Progress::kMore || down == Flow::Progress::kMore;
    return more ? Outcome::kMore : Outcome::kIdle;
  }

  bool awake = false;  // it is in Links::awake_

 private:
  struct Side : Endpoint, EventHandler {
    explicit Side(Link& owner) : link(owner) {}
    void OnEvents(uint32_t events) override {
      if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) hung_up = true;
      if ((events & EPOLLIN) != 0 || hung_up) readable = true;
      if ((events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0) writable = true;
      link.links_.Wake(link);
    }
    Link& link;
  };

  // Not left to close(): while a forked child has a copy of a socket, its events go on.
  void Unwatch() {
    for (const Side* side : {&client_, &server_}) {
      if (side->fd.valid()) epoll_ctl(links_.epoll_, EPOLL_CTL_DEL, side->fd.get(), nullptr);
    }
  }

  Links& links_;
  Side client_;
  Side server_;
  Flow to_server_{Direction::kToServer, client_, server_, links_.shared_};
  Flow to_client_{Direction::kToClient, server_, client_, links_.shared_};
};

Links::Links(int epoll, std::vector<Address> upstreams)
    : epoll_(epoll), upstreams_(std::move(upstreams)) {}

Links::~Links() { ResetAll(); }

void Links::LeadTo(std::vector<Address> upstreams) {
  upstreams_ = std::move(upstreams);
  next_upstream_ = 0;
}

void Links::Add(base::UniqueFd client) {
  const Address& upstream = upstreams_[next_upstream_++ % upstreams_.size()];
  base::UniqueFd server(
      socket(upstream.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  CheckErrno(server.valid(), "socket");
  // A failure is read from the socket later, as a reset.
  (void)connect(server.get(), upstream.get(), upstream.size);
  links_.push_back(std::make_unique<Link>(*this, std::move(client), std::move(server)));
  Link& link = *links_.back();
  for (const Direction direction : {Direction::kToServer, Direction::kToClient}) {
    const Inherited& faults = inherited(direction);
    Flow& flow = link.flow(direction);
    if (faults.hold) flow.Hold();
    if (faults.drop) flow.Drop();
    flow.CutAfter(faults.cut_after);
  }
  Wake(link);
}

void Links::Wake(Link& link) {
  if (std::exchange(link.awake, true)) return;
  awake_.push_back(&link);
}

void Links::WakeAll() {
  for (const auto& link : links_) Wake(*link);
}

bool Links::Pump() {
  for (Link* link : std::exchange(awake_, {})) {
    link->awake = false;
    const Link::Outcome outcome = link->Pump();
    if (outcome == Link::Outcome::kMore) Wake(*link);
    if (outcome == Link::Outcome::kOver) Remove(*link);
  }
  return !awake_.empty();
}

void Links::Remove(const Link& link) {
  links_.remove_if([&](const auto& candidate) { return candidate.get() == &link; });
}

base::Instant Links::next_due() const {
  base::Instant first = base::Instant::Infinite();
  for (const auto& link : links_) {
    for (const Direction direction : {Direction::kToServer, Direction::kToClient}) {
      first = std::min(first, link->flow(direction).next_due());
    }
  }
  return first;
}

void Links::Delay(Direction direction, absl::Duration delay) {
  shared_.delay[static_cast<int>(direction)] = delay;
}

void Links::Hold(Direction direction, Scope scope) {
  if (scope == Scope::kAll) inherited(direction).hold = true;
  for (const auto& link : links_) link->flow(direction).Hold();
}

void Links::ReleaseHeld() {
  for (const Direction direction : {Direction::kToServer, Direction::kToClient}) {
    inherited(direction).hold = false;
    for (const auto& link : links_) link->flow(direction).Release();
  }
  WakeAll();
}

void Links::Drop(Direction direction, Scope scope) {
  if (scope == Scope::kAll) inherited(direction).drop = true;
  for (const auto& link : links_) link->flow(direction).Drop();
  WakeAll();
}

void Links::CutAfter(Direction direction, int64_t bytes, Scope scope) {
  if (scope == Scope::kAll) inherited(direction).cut_after = bytes;
  for (const auto& link : links_) link->flow(direction).CutAfter(bytes);
}

void Links::ResetAll() {
  for (const auto& link : links_) link->Reset();
  awake_.clear();
  links_.clear();
}

void Links::CloseAll() {
  HalfClose(Direction::kToServer);
  HalfClose(Direction::kToClient);
}

void Links::HalfClose(Direction direction) {
  for (const auto& link : links_) link->flow(direction).EndNow();
  WakeAll();
}

void Links::Heal() {
  shared_.drop_replies = 0;
  for (const Direction direction : {Direction::kToServer, Direction::kToClient}) {
    shared_.delay[static_cast<int>(direction)] = absl::ZeroDuration();
    inherited(direction) = {};
    for (const auto& link : links_) link->flow(direction).Restore();
  }
  awake_.clear();
  links_.remove_if([](const auto& link) {
    const bool damaged =
        link->flow(Direction::kToServer).damaged() || link->flow(Direction::kToClient).damaged();
    if (damaged) link->Reset();
    link->awake = false;
    return damaged;
  });
  WakeAll();
}

}  // namespace redlatch::support::proxy
