#include "tests/support/tcp_proxy.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/base/unique_fd.h"
#include "tests/support/fatal.h"
#include "tests/support/proxy_links.h"
#include "tests/support/proxy_listener.h"
#include "tests/support/reserved_port.h"

namespace redlatch::support {
namespace {

constexpr int kEventsPerTurn = 256;

// A descriptor that counts: an eventfd or a timerfd. Emptied when it is seen.
class Signal : public proxy::EventHandler {
 public:
  Signal(int epoll, int fd) : fd_(fd) {
    CheckErrno(fd_.valid(), "eventfd or timerfd");
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = static_cast<EventHandler*>(this);
    CheckErrno(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
  }
  void OnEvents(uint32_t) override {
    uint64_t count = 0;
    seen = read(fd_.get(), &count, sizeof(count)) > 0;
  }
  int fd() const { return fd_.get(); }

  bool seen = false;

 private:
  base::UniqueFd fd_;
};

}  // namespace

// The proxy's thread. All that moves bytes or changes faults runs there, one thing at a time.
class TcpProxy::Loop {
 public:
  explicit Loop(const TcpProxyOptions& options)
      : socket_path_(options.listen_socket_path),
        links_(epoll_.get(), {proxy::TcpAddress(options.host, options.port)}) {
    Listen(proxy::TcpAddress("127.0.0.1", port()));
    if (!socket_path_.empty()) Listen(proxy::UnixAddress(socket_path_));
    thread_ = std::thread([this] { Main(); });
  }

  ~Loop() {
    Run([this](proxy::Links&) { stopping_ = true; });
    thread_.join();
  }

  int port() const { return port_.number(); }
  const std::string& socket_path() const { return socket_path_; }

  // Runs `control` on the thread; returns when its effects, and what follows from them at once,
  // are in place.
  void Run(const std::function<void(proxy::Links&)>& control) {
    Task task{&control};
    base::MutexLock lock(mutex_);
    tasks_.push_back(&task);
    const uint64_t one = 1;
    CheckErrno(write(wake_.fd(), &one, sizeof(one)) == sizeof(one), "eventfd");
    while (!task.done) changed_.Wait(mutex_);
  }

  void SetArrival(Arrival arrival) {
    Run([&](proxy::Links&) { ApplyArrival(arrival); });
  }

  void Heal() {
    Run([&](proxy::Links& links) {
      links.Heal();
      ApplyArrival(Arrival::kServe);
    });
  }

  bool Await(const std::function<bool(const ProxyStats&)>& condition, absl::Duration timeout) {
    const base::Instant deadline = base::Now() + timeout;
    base::MutexLock lock(mutex_);
    while (!condition(stats_)) {
      if (base::Now() >= deadline) return false;
      changed_.WaitUntil(mutex_, deadline);
    }
    return true;
  }

  ProxyStats stats() {
    base::MutexLock lock(mutex_);
    return stats_;
  }

 private:
  struct Task {
    const std::function<void(proxy::Links&)>* control;
    bool done = false;
  };

  void Listen(const proxy::Address& address) {
    listeners_.push_back(std::make_unique<proxy::Listener>(
        epoll_.get(), address, [this](base::UniqueFd client) { links_.Add(std::move(client)); }));
  }

  void ApplyArrival(Arrival arrival) {
    for (const auto& listener : listeners_) listener->SetArrival(arrival);
  }

  void Main() {
    for (bool more = false; !stopping_;) {
      WaitForEvents(more);
      if (std::exchange(timer_.seen, false)) links_.WakeAll();
      const std::vector<Task*> tasks = TakeTasks();
      for (const Task* task : tasks) (*task->control)(links_);
      more = links_.Pump();
      SetTimer(links_.next_due());
      Publish(tasks);
    }
  }

  void WaitForEvents(bool poll_only) {
    epoll_event events[kEventsPerTurn];
    const int count = epoll_wait(epoll_.get(), events, kEventsPerTurn, poll_only ? 0 : -1);
    CheckErrno(count >= 0 || errno == EINTR, "epoll_wait");
    for (int i = 0; i < count; ++i) {
      static_cast<proxy::EventHandler*>(events[i].data.ptr)->OnEvents(events[i].events);
    }
  }

  std::vector<Task*> TakeTasks() {
    base::MutexLock lock(mutex_);
    return std::exchange(tasks_, {});
  }

  void SetTimer(base::Instant due) {
    if (due == timer_due_) return;
    timer_due_ = due;
    itimerspec spec{};  // 0 disarms
    if (!due.is_infinite()) spec.it_value = {due.nanos() / 1000000000, due.nanos() % 1000000000};
    CheckErrno(timerfd_settime(timer_.fd(), TFD_TIMER_ABSTIME, &spec, nullptr) == 0, "timerfd");
  }

  void Publish(const std::vector<Task*>& finished) {
    base::MutexLock lock(mutex_);
    stats_ = links_.stats();
    for (Task* task : finished) task->done = true;
    changed_.SignalAll();
  }

  const ReservedPort port_;
  const std::string socket_path_;

  // Of the thread alone.
  const base::UniqueFd epoll_{epoll_create1(EPOLL_CLOEXEC)};
  Signal wake_{epoll_.get(), eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  Signal timer_{epoll_.get(), timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC)};
  base::Instant timer_due_ = base::Instant::Infinite();
  proxy::Links links_;
  std::vector<std::unique_ptr<proxy::Listener>> listeners_;
  bool stopping_ = false;

  base::Mutex mutex_;
  base::CondVar changed_;  // stats_, or a task's `done`
  ProxyStats stats_ ABSL_GUARDED_BY(mutex_);
  std::vector<Task*> tasks_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;
};

TcpProxy::TcpProxy(const TcpProxyOptions& options) : loop_(std::make_unique<Loop>(options)) {}
TcpProxy::~TcpProxy() = default;

int TcpProxy::port() const { return loop_->port(); }
std::string TcpProxy::url() const { return "redis://127.0.0.1:" + std::to_string(port()); }
std::string TcpProxy::unix_url() const { return "unix://" + loop_->socket_path(); }

void TcpProxy::Delay(Direction direction, absl::Duration delay) {
  loop_->Run([&](proxy::Links& links) { links.Delay(direction, delay); });
}

void TcpProxy::Hold(Direction direction, Scope scope) {
  loop_->Run([&](proxy::Links& links) { links.Hold(direction, scope); });
}

void TcpProxy::ReleaseHeld() {
  loop_->Run([](proxy::Links& links) { links.ReleaseHeld(); });
}

void TcpProxy::Drop(Direction direction, Scope scope) {
  loop_->Run([&](proxy::Links& links) { links.Drop(direction, scope); });
}

void TcpProxy::DropReplies(int connections) {
  loop_->Run([&](proxy::Links& links) { links.DropReplies(connections); });
}

void TcpProxy::CutAfter(Direction direction, int64_t bytes, Scope scope) {
  loop_->Run([&](proxy::Links& links) { links.CutAfter(direction, bytes, scope); });
}

void TcpProxy::ResetAll() {
  loop_->Run([](proxy::Links& links) { links.ResetAll(); });
}

void TcpProxy::CloseAll() {
  loop_->Run([](proxy::Links& links) { links.CloseAll(); });
}

void TcpProxy::HalfClose(Direction direction) {
  loop_->Run([&](proxy::Links& links) { links.HalfClose(direction); });
}

void TcpProxy::LeadTo(const std::vector<int>& ports) {
  std::vector<proxy::Address> upstreams;
  for (const int port : ports) upstreams.push_back(proxy::TcpAddress("127.0.0.1", port));
  loop_->Run([&](proxy::Links& links) { links.LeadTo(upstreams); });
}

void TcpProxy::SetArrival(Arrival arrival) { loop_->SetArrival(arrival); }
void TcpProxy::Heal() { loop_->Heal(); }
ProxyStats TcpProxy::stats() const { return loop_->stats(); }

bool TcpProxy::Await(const std::function<bool(const ProxyStats&)>& condition,
                     absl::Duration timeout) const {
  return loop_->Await(condition, timeout);
}

}  // namespace redlatch::support
