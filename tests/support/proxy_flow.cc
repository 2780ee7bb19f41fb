#include "tests/support/proxy_flow.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <limits>

namespace redlatch::support::proxy {
namespace {

constexpr size_t kPlainLimit = size_t{1} << 20;
constexpr size_t kWaitingLimit = size_t{16} << 20;
constexpr int kRoundsPerTurn = 8;
constexpr size_t kPiecesPerWrite = 64;

}  // namespace

Flow::Progress Flow::Pump() {
  for (int round = 0; round < kRoundsPerTurn; ++round) {
    if (!WriteDue()) return Progress::kReset;
    if (!Read()) return Progress::kIdle;
  }
  return WriteDue() ? Progress::kMore : Progress::kReset;
}

base::Instant Flow::next_due() const {
  if (queue_.empty() || held_ || !to_.writable) return base::Instant::Infinite();
  return queue_.front().due;
}

void Flow::Drop() {
  if (waiting_ > 0) damaged_ = true;
  if (!queue_.empty() && queue_.back().end != End::kNone) damaged_ = true;
  DiscardQueue();
  dropping_ = true;
}

void Flow::Restore() {
  held_ = false;
  dropping_ = false;
  cut_after_.reset();
  for (Chunk& chunk : queue_) chunk.due = {};
}

void Flow::EndNow() {
  DiscardQueue();
  closed_ = true;
  damaged_ = true;
  shutdown(to_.fd.get(), SHUT_WR);
}

size_t Flow::QueueLimit() const {
  return held_ || delay() > absl::ZeroDuration() ? kWaitingLimit : kPlainLimit;
}

// False where there is nothing to read.
bool Flow::Read() {
  if (!from_.readable || ended_ || waiting_ >= QueueLimit()) return false;
  std::vector<char>& buffer = shared_.buffer;
  const ssize_t got = recv(from_.fd.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got < 0 && errno == EINTR) return true;
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    from_.readable = false;
    return false;
  }
  if (got <= 0) {
    TakeEnd(got < 0 || from_.broken ? End::kReset : End::kFin);
    return true;
  }
  // A short read emptied the socket; what comes later raises a new event.
  if (static_cast<size_t>(got) < buffer.size() && !from_.hung_up) from_.readable = false;
  Take({buffer.data(), static_cast<size_t>(got)});
  return true;
}

void Flow::Take(std::string_view data) {
  if (direction_ == Direction::kToClient && shared_.drop_replies > 0 && !dropping_) {
    --shared_.drop_replies;
    dropping_ = true;
  }
  if (dropping_ || closed_) {
    damaged_ = true;
    shared_.stats.bytes_dropped += static_cast<int64_t>(data.size());
    return;
  }
  const bool passes = queue_.empty() && !held_ && delay() == absl::ZeroDuration() && to_.writable &&
                      !cut_after_.has_value();
  if (passes) {
    const iovec piece{const_cast<char*>(data.data()), data.size()};
    data.remove_prefix(Send(&piece, 1));
  }
  if (!data.empty() && !closed_) Enqueue(data, End::kNone);
}

void Flow::TakeEnd(End end) {
  ended_ = true;
  if (closed_) return;
  if (dropping_) {
    damaged_ = true;
    return;
  }
  Enqueue({}, end);
}

void Flow::Enqueue(std::string_view data, End end) {
  base::Instant due;
  if (delay() > absl::ZeroDuration()) due = base::Now() + delay();
  queue_.push_back({due, std::string(data), end});
  waiting_ += data.size();
  shared_.stats.bytes_waiting += static_cast<int64_t>(data.size());
}

void Flow::DiscardQueue() {
  shared_.stats.bytes_waiting -= static_cast<int64_t>(waiting_);
  shared_.stats.bytes_dropped += static_cast<int64_t>(waiting_);
  queue_.clear();
  waiting_ = 0;
  consumed_ = 0;
}

bool Flow::WriteDue() {
  while (!queue_.empty() && !held_ && to_.writable) {
    const Chunk& first = queue_.front();
    const base::Instant now = first.due == base::Instant() ? base::Instant() : base::Now();
    if (first.due > now) return true;
    if (first.end == End::kReset) return false;
    if (first.end == End::kFin) {
      shutdown(to_.fd.get(), SHUT_WR);
      closed_ = true;
      queue_.clear();
      return true;
    }
    auto budget = static_cast<size_t>(cut_after_.value_or(std::numeric_limits<int64_t>::max()));
    if (budget == 0) return false;
    iovec pieces[kPiecesPerWrite];
    size_t count = 0;
    size_t skip = consumed_;
    for (Chunk& chunk : queue_) {
      if (chunk.due > now || chunk.data.empty() || budget == 0 || count == kPiecesPerWrite) break;
      const size_t size = std::min(chunk.data.size() - skip, budget);
      pieces[count++] = {chunk.data.data() + skip, size};
      budget -= size;
      skip = 0;
    }
    Consume(Send(pieces, count));
  }
  return true;
}

// How many bytes the receiver's socket took. Where it is dead, none, and the flow is closed.
size_t Flow::Send(const iovec* pieces, size_t count) {
  size_t wanted = 0;
  for (size_t i = 0; i < count; ++i) wanted += pieces[i].iov_len;
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces);
  message.msg_iovlen = count;
  ssize_t sent = 0;
  do {
    sent = sendmsg(to_.fd.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
    // The reverse flow reads the end of the stream now; the error, once reported, is gone there.
    to_.broken = errno != EPIPE;
    to_.readable = true;
    closed_ = true;
    DiscardQueue();
    return 0;
  }
  const size_t taken = sent < 0 ? 0 : static_cast<size_t>(sent);
  if (taken < wanted) to_.writable = false;
  ProxyStats& stats = shared_.stats;
  (direction_ == Direction::kToServer ? stats.bytes_to_server : stats.bytes_to_client) +=
      static_cast<int64_t>(taken);
  if (cut_after_.has_value()) *cut_after_ -= static_cast<int64_t>(taken);
  return taken;
}

void Flow::Consume(size_t bytes) {
  waiting_ -= bytes;
  shared_.stats.bytes_waiting -= static_cast<int64_t>(bytes);
  while (bytes > 0) {
    const size_t left = queue_.front().data.size() - consumed_;
    if (bytes < left) {
      consumed_ += bytes;
      return;
    }
    bytes -= left;
    consumed_ = 0;
    queue_.pop_front();
  }
}

}  // namespace redlatch::support::proxy
