#include "tests/support/java_peer.h"

#include <atomic>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "src/base/clock.h"
#include "tests/support/fatal.h"

namespace redlatch::support {
namespace {

// Empty if there is no such file.
std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> CommandLine() {
  const std::string classes = TextOf(REDLATCH_JAVA_PEER "/classpath");
  if (classes.empty()) Fatal("without JavaPeer::Missing(): " + JavaPeer::Missing());
  // Many JVMs share few processors, and do not live for long.
  return {"java",
          "-Xms16m",
          "-Xmx96m",
          "-XX:+UseSerialGC",
          "-XX:TieredStopAtLevel=1",
          "-Xshare:auto",
          "-Dslf4j.internal.verbosity=ERROR",
          "-cp",
          classes,
          "Peer"};
}

std::chrono::steady_clock::time_point TimeOf(const std::string& nanos) {
  int64_t count = 0;
  if (!absl::SimpleAtoi(nanos, &count)) Fatal("no time: " + nanos);
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(count));
}

std::string Millis(absl::Duration time) { return absl::StrCat(absl::ToInt64Milliseconds(time)); }

}  // namespace

bool PendingReply::done() const {
  const base::MutexLock lock(state_->mu);
  return state_->done;
}

JavaReply PendingReply::Get(absl::Duration timeout) const {
  const base::Instant end = base::Now() + timeout;
  const base::MutexLock lock(state_->mu);
  while (!state_->done && base::Now() < end) state_->changed.WaitUntil(state_->mu, end);
  if (state_->done) return state_->reply;
  return {.value = absl::StrCat("no reply within ", absl::FormatDuration(timeout))};
}

void PendingReply::Fulfil(JavaReply reply) const {
  const base::MutexLock lock(state_->mu);
  state_->done = true;
  state_->reply = std::move(reply);
  state_->changed.SignalAll();
}

std::string JavaPeer::Missing() {
  if (!TextOf(REDLATCH_JAVA_PEER "/classpath").empty()) return "";
  const std::string reason = TextOf(REDLATCH_JAVA_PEER "/missing");
  return reason.empty() ? "The target redisson_peer has not been built." : reason;
}

JavaPeer::JavaPeer() : child_(Child::Exec(CommandLine())), reader_([this] { Read(); }) {}

JavaPeer::~JavaPeer() {
  Kill();
  reader_.join();
}

void JavaPeer::Kill() { child_->Kill(); }

PendingReply JavaPeer::Send(const std::string& thread, const std::vector<std::string>& request) {
  PendingReply pending;
  const base::MutexLock lock(mu_);
  if (ended_) {
    pending.Fulfil({.value = "the JVM has ended"});
    return pending;
  }
  const int64_t id = ++sent_;
  pending_.emplace(id, pending);
  // If the JVM has ended, Read() is about to learn of it.
  (void)child_->pipe().WriteLine(
      absl::StrCat(id, "\t", thread, "\t", absl::StrJoin(request, "\t")));
  return pending;
}

void JavaPeer::Read() {
  while (const std::optional<std::string> line =
             child_->pipe().ReadLine(absl::InfiniteDuration())) {
    const std::vector<std::string> words = absl::StrSplit(*line, '\t');
    int64_t id = 0;
    if (words.size() != 5 || !absl::SimpleAtoi(words[0], &id)) Fatal("Java printed " + *line);
    JavaReply reply = {.ok = words[1] == "ok",
                       .began = TimeOf(words[2]),
                       .ended = TimeOf(words[3]),
                       .value = words[4]};
    const base::MutexLock lock(mu_);
    pending_.at(id).Fulfil(std::move(reply));
    pending_.erase(id);
  }
  const base::MutexLock lock(mu_);
  ended_ = true;
  for (const auto& [id, pending] : pending_) pending.Fulfil({.value = "the JVM has ended"});
  pending_.clear();
}

JavaClient::JavaClient(JavaPeer& peer, const std::string& url, const JavaClientOptions& options)
    : peer_(peer), name_([] {
        static std::atomic<int> count = 0;
        return absl::StrCat("client", ++count);
      }()) {
  const std::string connected =
      Do("main", "connect", url, Millis(options.watchdog), Millis(options.fair_wait),
         options.default_size ? "default" : "small");
  if (!connected.empty()) Fatal("Redisson does not connect: " + connected);
}

// The JVM need not have finished by then.
JavaClient::~JavaClient() { (void)Send("main", "disconnect"); }

}  // namespace redlatch::support
