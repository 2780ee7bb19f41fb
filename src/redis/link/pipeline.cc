#include "src/redis/link/pipeline.h"

#include <cstring>
#include <new>
#include <utility>

#include "src/base/status.h"

namespace redlatch::redis {

bool Pipeline::Append(absl::Span<const Command> commands, Exchange* exchange) noexcept {
  if (commands.empty()) return true;
  size_t bytes = 0;
  for (const Command& command : commands) bytes += command.bytes().size();
  const bool joins = exchange == nullptr && segments_.size() > sent_ &&
                     segments_.back().exchange == nullptr && segments_.back().replies > 0;
  try {
    unsent_.reserve(unsent_.size() + bytes);
    if (!joins) segments_.push_back({.exchange = exchange, .bytes = 0, .replies = 0, .index = 0});
  } catch (const std::bad_alloc&) {
    return false;
  }
  for (const Command& command : commands) unsent_.append(command.bytes());
  segments_.back().bytes += bytes;
  segments_.back().replies += commands.size();
  size_ += commands.size();
  if (exchange != nullptr) exchange->open += commands.size();
  return true;
}

void Pipeline::Prepend(const Command& command) {
  unsent_.insert(0, command.bytes());
  segments_.push_front(
      {.exchange = nullptr, .bytes = command.bytes().size(), .replies = 1, .index = 0});
  ++size_;
}

void Pipeline::TakeUnsent(std::string& empty) {
  if (dead_bytes_ > 0) Compact();
  unsent_.swap(empty);
  sent_ = segments_.size();
}

bool Pipeline::Deliver(Reply reply, Finished& finished) {
  if (sent_ == 0) return false;
  Segment& segment = segments_.front();
  if (Exchange* exchange = segment.exchange; exchange != nullptr) {
    exchange->results[segment.index++] = std::move(reply);
    if (--exchange->open == 0) finished.push_back(exchange);
  }
  --size_;
  if (--segment.replies == 0) {
    segments_.pop_front();
    --sent_;
  }
  return true;
}

void Pipeline::Fail(const Segment& segment, const absl::Status& why, Finished& finished) {
  Exchange* exchange = segment.exchange;
  if (exchange == nullptr) return;
  for (size_t i = 0; i < segment.replies; ++i)
    exchange->results[segment.index + i] = base::Unshared(why);
  exchange->open -= segment.replies;
  if (exchange->open == 0) finished.push_back(exchange);
}

void Pipeline::TakeOut(Segment& segment) {
  size_ -= std::exchange(segment.replies, 0);
  segment.exchange = nullptr;
  dead_bytes_ += segment.bytes;
}

// Removes from the unsent bytes those of segments that were taken out.
void Pipeline::Compact() {
  size_t live = sent_;
  size_t live_bytes = 0;
  size_t at = 0;
  for (size_t i = sent_; i < segments_.size(); ++i) {
    const Segment segment = segments_[i];
    if (segment.replies > 0) {
      std::memmove(&unsent_[live_bytes], &unsent_[at], segment.bytes);
      live_bytes += segment.bytes;
      segments_[live++] = segment;
    }
    at += segment.bytes;
  }
  segments_.resize(live);
  unsent_.resize(live_bytes);
  dead_bytes_ = 0;
}

void Pipeline::ConnectionLost(std::string_view rest, const absl::Status& sent,
                              const absl::Status& unsent, Finished& finished) {
  size_t left = rest.size();
  while (sent_ > 0 && segments_[sent_ - 1].bytes <= left) left -= segments_[--sent_].bytes;
  unsent_.insert(0, rest.substr(left));
  for (; sent_ > 0; --sent_) {
    Fail(segments_.front(), sent, finished);
    size_ -= segments_.front().replies;
    segments_.pop_front();
  }
  FailUnsent([](const Exchange* each) { return each == nullptr || !each->waits(); }, unsent,
             finished);
}

void Pipeline::FailUnsent(absl::FunctionRef<bool(const Exchange*)> which, const absl::Status& why,
                          Finished& finished) {
  for (size_t i = sent_; i < segments_.size(); ++i) {
    Segment& segment = segments_[i];
    if (segment.replies == 0 || !which(segment.exchange)) continue;
    Fail(segment, why, finished);
    TakeOut(segment);
  }
  // Each byte that is moved here is paid for by one that goes.
  if (dead_bytes_ > unsent_.size() / 2) Compact();
}

bool Pipeline::Abandon(Exchange& exchange, const absl::Status& sent, const absl::Status& unsent) {
  Finished nobody;  // the one that asks is awake
  for (size_t i = 0; i < sent_; ++i) {
    if (segments_[i].exchange != &exchange) continue;
    Fail(segments_[i], sent, nobody);
    segments_[i].exchange = nullptr;
    return true;
  }
  FailUnsent([&](const Exchange* each) { return each == &exchange; }, unsent, nobody);
  return false;
}

Exchange* Pipeline::FirstWaiting() const {
  for (const Segment& segment : segments_) {
    Exchange* const exchange = segment.exchange;
    if (exchange != nullptr && exchange->waits() && !exchange->away) return exchange;
  }
  return nullptr;
}

}  // namespace redlatch::redis
