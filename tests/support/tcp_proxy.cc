#include "tests/support/tcp_proxy.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <list>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/base/unique_fd.h"
#include "tests/support/fatal.h"
#include "tests/support/resources.h"

namespace redlatch::support {
namespace {

constexpr int kBacklog = 511;
constexpr size_t kPlainLimit = size_t{1} << 20;
constexpr size_t kWaitingLimit = size_t{16} << 20;

sockaddr_in AddressOf(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}
sockaddr* Generic(sockaddr_in& address) { return reinterpret_cast<sockaddr*>(&address); }

base::UniqueFd MakeSocket() {
  base::UniqueFd result(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  CheckErrno(result.valid(), "socket");
  return result;
}

base::UniqueFd Accept(const base::UniqueFd& listener) {
  base::UniqueFd client(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!client.valid() && (errno == EMFILE || errno == ENFILE)) {
    Fatal("the proxy is out of file descriptors");
  }
  return client;
}

bool WouldBlock() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

// Sends RST, even if a forked child has a copy of the descriptor; close() alone would have no
// effect then.
void Reset(base::UniqueFd& fd) {
  if (!fd.valid()) return;
  sockaddr nowhere{};
  nowhere.sa_family = AF_UNSPEC;
  (void)connect(fd.get(), &nowhere, sizeof(nowhere));
  shutdown(fd.get(), SHUT_RDWR);
  fd.Reset();
}

enum class End : uint8_t { kNone, kFin, kReset };

struct Chunk {
  base::Instant due;  // 0: immediately
  std::string data;
  End end = End::kNone;
};

// One direction of one connection: bytes, and then the end of the stream.
struct Flow {
  bool hold = false;
  bool drop = false;
  std::optional<int64_t> cut_after;
  std::deque<Chunk> queue;
  size_t waiting = 0;    // bytes in the queue
  bool ended = false;    // the sender's stream is over
  bool closed = false;   // the receiver accepts nothing more
  bool damaged = false;  // the receiver lacks bytes that the sender believes delivered

  bool over() const { return ended && queue.empty(); }
  bool has_due(base::Instant now) const {
    return !hold && !queue.empty() && queue.front().due <= now;
  }
};

struct Link {
  // Indexed by the direction of the bytes that are read from it: the client's, the server's.
  base::UniqueFd fds[2];
  Flow flows[2];

  const base::UniqueFd& to(int direction) const { return fds[1 - direction]; }
  void ResetBoth() {
    for (base::UniqueFd& each : fds) Reset(each);
  }
};

constexpr int Index(Direction direction) { return static_cast<int>(direction); }

// The socket to which clients connect.
class Listener {
 public:
  explicit Listener(int port) : address_(AddressOf(port)) { Open(); }

  // -1 if no client is served now.
  int fd() const { return arrival_ == Arrival::kServe ? socket_.get() : -1; }
  base::UniqueFd AcceptOne() { return Accept(socket_); }

  // Returns the connection of a client that waited in the backlog, if there is one to serve.
  base::UniqueFd SetArrival(Arrival arrival) {
    base::UniqueFd client;
    if (arrival == arrival_) return client;
    if (arrival_ == Arrival::kRefuse) Open();
    if (arrival_ == Arrival::kHang) {
      client = Accept(socket_);
      // The connection is a client's if the client connected before the filler did.
      if (client.valid() && IsOfFiller(client)) client.Reset();
      filler_.Reset();
      listen(socket_.get(), kBacklog);
    }
    arrival_ = arrival;
    if (arrival == Arrival::kRefuse) {
      shutdown(socket_.get(), SHUT_RDWR);  // takes effect even if a forked child has a copy
      socket_.Reset();
    }
    if (arrival == Arrival::kHang) FillBacklog();
    return client;
  }

 private:
  void Open() {
    socket_ = MakeSocket();
    const int on = 1;
    setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    CheckErrno(bind(socket_.get(), Generic(address_), sizeof address_) == 0, "the proxy's bind");
    CheckErrno(listen(socket_.get(), kBacklog) == 0, "listen");
  }
  // The kernel answers connect() until the backlog is full. A backlog of length 0 is full after one
  // connection: that of the filler.
  void FillBacklog() {
    listen(socket_.get(), 0);
    filler_ = MakeSocket();
    (void)connect(filler_.get(), Generic(address_), sizeof address_);
  }
  bool IsOfFiller(const base::UniqueFd& accepted) const {
    sockaddr_in peer{}, own{};
    socklen_t size = sizeof peer;
    return getpeername(accepted.get(), Generic(peer), &size) == 0 &&
           getsockname(filler_.get(), Generic(own), &size) == 0 && peer.sin_port == own.sin_port;
  }

  sockaddr_in address_;
  Arrival arrival_ = Arrival::kServe;
  base::UniqueFd socket_;
  base::UniqueFd filler_;  // occupies the backlog, so that connections hang
};

}  // namespace

// The proxy's thread. Everything that moves bytes or changes faults runs there, one after the
// other.
class TcpProxy::Loop {
 public:
  explicit Loop(const TcpProxyOptions& options) : upstreams_({options.port}) {
    thread_ = std::thread([this] { Main(); });
  }
  ~Loop() {
    Run([this] { stopping_ = true; });
    thread_.join();
    ResetAll();
  }

  int port() const { return port_.number(); }

  // Runs `control` on the thread. Returns when its effects, and their immediate consequences, are
  // in place.
  void Run(const std::function<void()>& control) {
    Task task{&control};
    base::MutexLock lock(mutex_);
    tasks_.push_back(&task);
    const uint64_t one = 1;
    CheckErrno(write(wake_.get(), &one, sizeof(one)) == sizeof(one), "eventfd");
    while (!task.done) changed_.Wait(mutex_);
  }
  bool Await(const std::function<bool(const ProxyStats&)>& condition, absl::Duration timeout) {
    const base::Instant deadline = base::Now() + timeout;
    base::MutexLock lock(mutex_);
    while (!condition(shown_)) {
      if (base::Now() >= deadline) return false;
      changed_.WaitUntil(mutex_, deadline);
    }
    return true;
  }
  ProxyStats stats() {
    Run([] {});  // so that the figures are up to date
    base::MutexLock lock(mutex_);
    return shown_;
  }

  // The following functions are called through Run().
  void LeadTo(const std::vector<int>& ports) {
    upstreams_ = ports;
    next_upstream_ = 0;
  }
  void SetDelay(Direction direction, absl::Duration delay) { delays_[Index(direction)] = delay; }
  void ForEach(Direction direction, Scope scope, const std::function<void(Flow&)>& change) {
    if (scope == Scope::kAll) change(born_[Index(direction)]);
    for (Link& link : links_) change(link.flows[Index(direction)]);
  }
  void Drop(Direction direction, Scope scope) {
    ForEach(direction, scope, [this](Flow& flow) {
      if (!flow.queue.empty()) flow.damaged = true;
      Discard(flow);
      flow.drop = true;
    });
  }
  void DropReplies(int connections) { drop_replies_ = connections; }
  void HalfClose(Direction direction) {
    for (Link& link : links_) {
      Flow& flow = link.flows[Index(direction)];
      Discard(flow);
      flow.closed = flow.damaged = true;
      shutdown(link.to(Index(direction)).get(), SHUT_WR);
    }
  }
  void ResetAll() {
    while (!links_.empty()) Remove(links_.begin(), /*reset=*/true);
  }
  void SetArrival(Arrival arrival) {
    AcceptAll();  // clients that connected before are still served
    base::UniqueFd client = listener_.SetArrival(arrival);
    if (client.valid()) Add(std::move(client));
  }
  void Heal() {
    drop_replies_ = 0;
    for (int direction : {0, 1}) {
      delays_[direction] = absl::ZeroDuration();
      born_[direction] = {};
    }
    for (auto next = links_.begin(); next != links_.end();) {
      const auto link = next++;
      for (Flow& flow : link->flows) {
        flow.hold = flow.drop = false;
        flow.cut_after.reset();
        for (Chunk& chunk : flow.queue) chunk.due = {};
      }
      if (link->flows[0].damaged || link->flows[1].damaged) Remove(link, /*reset=*/true);
    }
    SetArrival(Arrival::kServe);
  }

 private:
  struct Task {
    const std::function<void()>* control;
    bool done = false;
  };

  void Main() {
    while (!stopping_) {
      Wait();
      AcceptAll();
      std::vector<Task*> tasks;
      {
        base::MutexLock lock(mutex_);
        tasks.swap(tasks_);
      }
      for (const Task* task : tasks) (*task->control)();
      for (auto next = links_.begin(); next != links_.end();) Move(next++);
      base::MutexLock lock(mutex_);
      shown_ = stats_;
      for (Task* task : tasks) task->done = true;
      changed_.SignalAll();
    }
  }

  // Waits until a control is called, or bytes can be moved.
  void Wait() {
    std::vector<pollfd> watched = {{wake_.get(), POLLIN, 0}, {listener_.fd(), POLLIN, 0}};
    const base::Instant now = base::Now();
    base::Instant next_due = base::Instant::Infinite();
    for (const Link& link : links_) {
      for (const int side : {0, 1}) {
        short events = 0;
        if (MayRead(side, link.flows[side])) events |= POLLIN;
        const Flow& out = link.flows[1 - side];
        if (out.has_due(now)) {
          events |= POLLOUT;
        } else if (!out.hold && !out.queue.empty()) {
          next_due = std::min(next_due, out.queue.front().due);
        }
        // poll() reports ends and errors even without events, so such descriptors are left out.
        watched.push_back({events != 0 ? link.fds[side].get() : -1, events, 0});
      }
    }
    const absl::Duration left = std::max(next_due - now, absl::ZeroDuration());
    const timespec timeout = absl::ToTimespec(left);
    const bool infinite = next_due == base::Instant::Infinite();
    CheckErrno(ppoll(watched.data(), watched.size(), infinite ? nullptr : &timeout, nullptr) >= 0 ||
                   errno == EINTR,
               "poll");
    uint64_t count = 0;
    (void)!read(wake_.get(), &count, sizeof(count));
  }

  void AcceptAll() {
    while (listener_.fd() >= 0) {
      base::UniqueFd client = listener_.AcceptOne();
      if (!client.valid()) break;
      Add(std::move(client));
    }
  }
  // Takes a client's connection and makes the server's.
  void Add(base::UniqueFd client) {
    sockaddr_in upstream = AddressOf(upstreams_[next_upstream_++ % upstreams_.size()]);
    Link& link = links_.emplace_back();
    link.fds[0] = std::move(client);
    link.fds[1] = MakeSocket();
    // A failure is read from the socket later, as a reset.
    (void)connect(link.fds[1].get(), Generic(upstream), sizeof upstream);
    const int on = 1;
    for (base::UniqueFd& each : link.fds) {
      setsockopt(each.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    }
    for (int direction : {0, 1}) link.flows[direction] = born_[direction];
    ++stats_.accepted;
    ++stats_.open;
  }
  void Remove(std::list<Link>::iterator link, bool reset) {
    for (Flow& flow : link->flows) Discard(flow);
    if (reset) link->ResetBoth();
    links_.erase(link);
    --stats_.open;
  }

  // Moves all bytes that can be moved now.
  void Move(std::list<Link>::iterator link) {
    for (int round = 0; round < 8; ++round) {  // then other connections have their turn
      bool moved = false;
      for (const int direction : {0, 1}) {
        moved |= Read(*link, direction);
        if (!Write(*link, direction, moved)) return Remove(link, /*reset=*/true);
      }
      if (link->flows[0].over() && link->flows[1].over()) return Remove(link, /*reset=*/false);
      if (!moved) return;
    }
  }

  bool MayRead(int direction, const Flow& flow) const {
    const bool waits = flow.hold || delays_[direction] > absl::ZeroDuration();
    return !flow.ended && flow.waiting < (waits ? kWaitingLimit : kPlainLimit);
  }
  // Returns true if it has read something.
  bool Read(Link& link, int direction) {
    Flow& flow = link.flows[direction];
    if (!MayRead(direction, flow)) return false;
    const ssize_t got =
        recv(link.fds[direction].get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (got < 0 && WouldBlock()) return false;
    std::string data(buffer_.data(), static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got > 0 && direction == Index(Direction::kToClient) && drop_replies_ > 0 && !flow.drop) {
      --drop_replies_;
      flow.drop = true;
    }
    flow.ended = got <= 0;
    if (flow.drop || flow.closed) {
      flow.damaged = true;
      stats_.bytes_dropped += static_cast<int64_t>(data.size());
    } else {
      Enqueue(flow, direction, std::move(data),
              got > 0    ? End::kNone
              : got == 0 ? End::kFin
                         : End::kReset);
    }
    return true;
  }
  void Enqueue(Flow& flow, int direction, std::string data, End end) {
    const absl::Duration delay = delays_[direction];
    flow.waiting += data.size();
    stats_.bytes_waiting += static_cast<int64_t>(data.size());
    flow.queue.push_back({delay > absl::ZeroDuration() ? base::Now() + delay : base::Instant(),
                          std::move(data), end});
  }
  void Discard(Flow& flow) {
    stats_.bytes_waiting -= static_cast<int64_t>(flow.waiting);
    stats_.bytes_dropped += static_cast<int64_t>(flow.waiting);
    flow.queue.clear();
    flow.waiting = 0;
  }

  // Writes all bytes that are due. Returns false if the connection must be reset.
  bool Write(Link& link, int direction, bool& moved) {
    Flow& flow = link.flows[direction];
    const int fd = link.to(direction).get();
    while (flow.has_due(base::Now())) {
      Chunk& first = flow.queue.front();
      if (first.end == End::kReset) return false;
      if (first.end == End::kFin) {
        shutdown(fd, SHUT_WR);
        flow.closed = true;
        flow.queue.clear();
        return true;
      }
      if (flow.cut_after == 0) return false;
      const size_t size = static_cast<size_t>(
          std::min(flow.cut_after.value_or(INT64_MAX), static_cast<int64_t>(first.data.size())));
      const ssize_t sent = send(fd, first.data.data(), size, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && WouldBlock()) return true;
      if (sent < 0) {
        // Unless the receiver has only closed its end (EPIPE), its own stream has ended, too.
        Flow& back = link.flows[1 - direction];
        if (errno != EPIPE && !std::exchange(back.ended, true) && !back.drop && !back.closed) {
          Enqueue(back, 1 - direction, {}, End::kReset);
        }
        flow.closed = true;
        Discard(flow);
        return true;
      }
      moved = true;
      (direction == 0 ? stats_.bytes_to_server : stats_.bytes_to_client) += sent;
      stats_.bytes_waiting -= sent;
      flow.waiting -= static_cast<size_t>(sent);
      if (flow.cut_after) *flow.cut_after -= sent;
      first.data.erase(0, static_cast<size_t>(sent));
      if (first.data.empty()) flow.queue.pop_front();
    }
    return true;
  }

  const ReservedPort port_;
  const base::UniqueFd wake_{eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};

  // Used only by the thread.
  Listener listener_{port()};
  std::vector<int> upstreams_;
  size_t next_upstream_ = 0;
  std::list<Link> links_;
  Flow born_[2];  // the faults of new connections
  absl::Duration delays_[2];
  int drop_replies_ = 0;
  std::vector<char> buffer_ = std::vector<char>(size_t{256} << 10);
  ProxyStats stats_;
  bool stopping_ = false;

  base::Mutex mutex_;
  base::CondVar changed_;  // signalled when shown_ or a task's `done` changes
  ProxyStats shown_ ABSL_GUARDED_BY(mutex_);
  std::vector<Task*> tasks_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;
};

TcpProxy::TcpProxy(const TcpProxyOptions& options) : loop_(std::make_unique<Loop>(options)) {}
TcpProxy::~TcpProxy() = default;

int TcpProxy::port() const { return loop_->port(); }
std::string TcpProxy::url() const { return "redis://127.0.0.1:" + std::to_string(port()); }

void TcpProxy::Delay(Direction direction, absl::Duration delay) {
  loop_->Run([&] { loop_->SetDelay(direction, delay); });
}
void TcpProxy::Hold(Direction direction, Scope scope) {
  loop_->Run([&] { loop_->ForEach(direction, scope, [](Flow& flow) { flow.hold = true; }); });
}
void TcpProxy::ReleaseHeld() {
  loop_->Run([&] {
    for (const Direction direction : {Direction::kToServer, Direction::kToClient}) {
      loop_->ForEach(direction, Scope::kAll, [](Flow& flow) { flow.hold = false; });
    }
  });
}
void TcpProxy::Drop(Direction direction, Scope scope) {
  loop_->Run([&] { loop_->Drop(direction, scope); });
}
void TcpProxy::DropReplies(int connections) {
  loop_->Run([&] { loop_->DropReplies(connections); });
}
void TcpProxy::CutAfter(Direction direction, int64_t bytes) {
  loop_->Run([&] {
    loop_->ForEach(direction, Scope::kExisting, [&](Flow& flow) { flow.cut_after = bytes; });
  });
}
void TcpProxy::ResetAll() {
  loop_->Run([&] { loop_->ResetAll(); });
}
void TcpProxy::HalfClose(Direction direction) {
  loop_->Run([&] { loop_->HalfClose(direction); });
}
void TcpProxy::LeadTo(const std::vector<int>& ports) {
  loop_->Run([&] { loop_->LeadTo(ports); });
}
void TcpProxy::SetArrival(Arrival arrival) {
  loop_->Run([&] { loop_->SetArrival(arrival); });
}
void TcpProxy::Heal() {
  loop_->Run([&] { loop_->Heal(); });
}
ProxyStats TcpProxy::stats() const { return loop_->stats(); }

bool TcpProxy::Await(const std::function<bool(const ProxyStats&)>& condition,
                     absl::Duration timeout) const {
  return loop_->Await(condition, timeout);
}

}  // namespace redlatch::support
