#include "src/demo/crew.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace redlatch::demo {
namespace {

void Close(int& descriptor) {
  if (descriptor >= 0) close(descriptor);
  descriptor = -1;
}

Worker::State After(const Report& report, Worker::State before) {
  switch (report.event) {
    case Report::Event::kStarted:
    case Report::Event::kRests:
      return Worker::State::kRests;
    case Report::Event::kWaits:
      return Worker::State::kWaits;
    case Report::Event::kHolds:
      return Worker::State::kHolds;
    case Report::Event::kDallies:
      return Worker::State::kDallies;
    case Report::Event::kFailed:
      return Worker::State::kFailed;
    case Report::Event::kWrote:
    case Report::Event::kRefused:
    case Report::Event::kLost:
      break;
  }
  return before;
}

void Note(Worker& worker, const Report& report) {
  if (report.event == Report::Event::kStarted) worker.host = report.text.data();
  if (report.event == Report::Event::kHolds) worker.token = report.token;
  if (report.event == Report::Event::kWrote) ++worker.told;
  if (worker.pid > 0) worker.state = After(report, worker.state);
}

}  // namespace

Crew::~Crew() {
  for (Worker& worker : workers_) {
    Close(worker.orders);
    if (worker.pid < 0) continue;
    kill(worker.pid, SIGKILL);
    while (waitpid(worker.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  Close(reports_);
  Close(reports_write_);
}

absl::Status Crew::Start(int count, const WorkerTask& task) {
  std::array<int, 2> ends = {-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
  reports_ = ends[0];
  reports_write_ = ends[1];
  fcntl(reports_, F_SETFL, O_NONBLOCK);
  for (int number = 1; number <= count; ++number) {
    WorkerTask its = task;
    its.worker = number;
    if (absl::Status started = StartOne(its); !started.ok()) return started;
  }
  return absl::OkStatus();
}

absl::Status Crew::StartOne(const WorkerTask& task) {
  std::array<int, 2> ends = {-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
  Worker& worker = workers_.emplace_back();
  worker.number = task.worker;
  worker.orders = ends[1];
  const absl::Cleanup closed = [&] { close(ends[0]); };

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const absl::Cleanup destroyed = [&] { posix_spawn_file_actions_destroy(&actions); };
  posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, reports_write_, STDOUT_FILENO);

  std::array<std::string, 6> words = {"redlatch-demo", "--worker", absl::StrCat(task.worker),
                                      task.url,        task.lock,  task.counter_path};
  std::array<char*, 7> argv = {};
  for (size_t i = 0; i < words.size(); ++i) argv[i] = words[i].data();
  pid_t pid = -1;
  const int error = posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
  if (error != 0) return absl::ErrnoToStatus(error, "starting a worker");
  worker.pid = worker.was = pid;
  return absl::OkStatus();
}

void Crew::Attend(absl::Duration wait,
                  const std::function<void(const Worker&, const Report&)>& heard) {
  pollfd ready = {.fd = reports_, .events = POLLIN, .revents = 0};
  poll(&ready, 1, static_cast<int>(absl::ToInt64Milliseconds(wait)));
  Reap();  // before reading: what a worker said last is heard after it is gone
  Read(heard);
}

void Crew::Read(const std::function<void(const Worker&, const Report&)>& heard) {
  Report report;
  while (read(reports_, &report, sizeof report) == sizeof report) {
    Worker& worker = workers_.at(static_cast<size_t>(report.worker) - 1);
    Note(worker, report);
    heard(worker, report);
  }
}

void Crew::Reap() {
  for (Worker& worker : workers_) {
    int status = 0;
    if (worker.pid < 0 || waitpid(worker.pid, &status, WNOHANG) != worker.pid) continue;
    worker.pid = -1;
    if (worker.state == Worker::State::kKilled) continue;
    const bool well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    worker.state = well ? Worker::State::kDone : Worker::State::kFailed;
  }
}

void Crew::Tell(Worker& worker, Order order) {
  const char byte = static_cast<char>(order);
  if (write(worker.orders, &byte, 1) != 1) worker.state = Worker::State::kFailed;
}

void Crew::Freeze(Worker& worker) {
  if (worker.pid <= 0) return;
  worker.state = Worker::State::kFrozen;
  kill(worker.pid, SIGSTOP);
}

void Crew::Thaw(Worker& worker) {
  if (worker.pid <= 0) return;
  worker.state = Worker::State::kHolds;  // so it thinks
  kill(worker.pid, SIGCONT);
}

void Crew::Kill(Worker& worker) {
  if (worker.pid <= 0) return;
  worker.state = Worker::State::kKilled;
  kill(worker.pid, SIGKILL);
  while (waitpid(worker.pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  worker.pid = -1;
}

void Crew::Dismiss() {
  for (Worker& worker : workers_) Close(worker.orders);
}

}  // namespace redlatch::demo
