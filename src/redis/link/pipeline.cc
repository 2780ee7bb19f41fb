#include "src/redis/link/pipeline.h"

#include <cstring>
#include <new>
#include <utility>

#include "src/base/status.h"

namespace redlatch::redis {

bool Pipeline::Append(absl::Span<const Command> commands, InFlight* in_flight) noexcept {
  if (commands.empty()) return true;
  size_t bytes = 0;
  for (const Command& command : commands) bytes += command.bytes().size();
  const bool joins = in_flight == nullptr && commands_.size() > sent_ &&
                     commands_.back().in_flight == nullptr && commands_.back().replies > 0;
  try {
    unsent_.reserve(unsent_.size() + bytes);
    if (!joins) commands_.push_back({.in_flight = in_flight, .bytes = 0, .replies = 0, .index = 0});
  } catch (const std::bad_alloc&) {
    return false;
  }
  for (const Command& command : commands) unsent_.append(command.bytes());
  commands_.back().bytes += bytes;
  commands_.back().replies += commands.size();
  size_ += commands.size();
  if (in_flight != nullptr) in_flight->open += commands.size();
  return true;
}

void Pipeline::Prepend(const Command& command) {
  unsent_.insert(0, command.bytes());
  commands_.push_front(
      {.in_flight = nullptr, .bytes = command.bytes().size(), .replies = 1, .index = 0});
  ++size_;
}

void Pipeline::TakeUnsent(std::string& empty) {
  if (dead_bytes_ > 0) Compact();
  unsent_.swap(empty);
  sent_ = commands_.size();
}

bool Pipeline::Deliver(Reply reply, Finished& finished) {
  if (sent_ == 0) return false;
  InFlightCommands& commands = commands_.front();
  if (InFlight* in_flight = commands.in_flight; in_flight != nullptr) {
    in_flight->results[commands.index++] = std::move(reply);
    if (--in_flight->open == 0) finished.push_back(in_flight);
  }
  --size_;
  if (--commands.replies == 0) {
    commands_.pop_front();
    --sent_;
  }
  return true;
}

void Pipeline::Fail(const InFlightCommands& commands, const absl::Status& why, Finished& finished) {
  InFlight* in_flight = commands.in_flight;
  if (in_flight == nullptr) return;
  for (size_t i = 0; i < commands.replies; ++i)
    in_flight->results[commands.index + i] = base::Unshared(why);
  in_flight->open -= commands.replies;
  if (in_flight->open == 0) finished.push_back(in_flight);
}

void Pipeline::TakeOut(InFlightCommands& commands) {
  size_ -= std::exchange(commands.replies, 0);
  commands.in_flight = nullptr;
  dead_bytes_ += commands.bytes;
}

// Removes from the unsent bytes those of segments that were taken out.
void Pipeline::Compact() {
  size_t live = sent_;
  size_t live_bytes = 0;
  size_t at = 0;
  for (size_t i = sent_; i < commands_.size(); ++i) {
    const InFlightCommands commands = commands_[i];
    if (commands.replies > 0) {
      std::memmove(&unsent_[live_bytes], &unsent_[at], commands.bytes);
      live_bytes += commands.bytes;
      commands_[live++] = commands;
    }
    at += commands.bytes;
  }
  commands_.resize(live);
  unsent_.resize(live_bytes);
  dead_bytes_ = 0;
}

void Pipeline::ConnectionLost(std::string_view rest, const absl::Status& sent,
                              const absl::Status& unsent, Finished& finished) {
  size_t left = rest.size();
  while (sent_ > 0 && commands_[sent_ - 1].bytes <= left) left -= commands_[--sent_].bytes;
  unsent_.insert(0, rest.substr(left));
  for (; sent_ > 0; --sent_) {
    Fail(commands_.front(), sent, finished);
    size_ -= commands_.front().replies;
    commands_.pop_front();
  }
  FailUnsent([](const InFlight* each) { return each == nullptr || !each->waits(); }, unsent,
             finished);
}

void Pipeline::FailUnsent(absl::FunctionRef<bool(const InFlight*)> which, const absl::Status& why,
                          Finished& finished) {
  for (size_t i = sent_; i < commands_.size(); ++i) {
    InFlightCommands& commands = commands_[i];
    if (commands.replies == 0 || !which(commands.in_flight)) continue;
    Fail(commands, why, finished);
    TakeOut(commands);
  }
  // Each byte that is moved here is paid for by one that goes.
  if (dead_bytes_ > unsent_.size() / 2) Compact();
}

bool Pipeline::Abandon(InFlight& in_flight, const absl::Status& sent, const absl::Status& unsent) {
  Finished nobody;  // the one that asks is awake
  for (size_t i = 0; i < sent_; ++i) {
    if (commands_[i].in_flight != &in_flight) continue;
    Fail(commands_[i], sent, nobody);
    commands_[i].in_flight = nullptr;
    return true;
  }
  FailUnsent([&](const InFlight* each) { return each == &in_flight; }, unsent, nobody);
  return false;
}

InFlight* Pipeline::FirstWaiting() const {
  for (const InFlightCommands& commands : commands_) {
    InFlight* const in_flight = commands.in_flight;
    if (in_flight != nullptr && in_flight->waits() && !in_flight->away) return in_flight;
  }
  return nullptr;
}

}  // namespace redlatch::redis
