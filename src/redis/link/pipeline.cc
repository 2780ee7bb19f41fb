#include "src/redis/link/pipeline.h"

#include <cstring>
#include <iterator>
#include <new>
#include <utility>
#include <vector>

#include "src/base/status.h"

namespace redlatch::redis {

namespace {

// After the end of a subscription, a HELLO, which each user may always run. A server answers the
// first with a push, or with an error if it is busy or had ended the subscription itself, since the
// channel's slot moved. The reply to HELLO tells that the answer has come.
std::string BytesAbout(Pipeline::About about, std::string_view channel, bool sharded) {
  if (about == Pipeline::About::kSubscribe) {
    return std::string(Command{sharded ? "SSUBSCRIBE" : "SUBSCRIBE", channel}.bytes());
  }
  std::string bytes(Command{sharded ? "SUNSUBSCRIBE" : "UNSUBSCRIBE", channel}.bytes());
  return bytes.append(Command{"HELLO"}.bytes());
}

}  // namespace

bool Pipeline::Append(absl::Span<const Command> commands, InFlight& in_flight) noexcept {
  size_t bytes = 0;
  for (const Command& command : commands) bytes += command.bytes().size();
  try {
    unsent_.reserve(unsent_.size() + bytes);
    commands_.push_back(
        {.in_flight = &in_flight, .bytes = bytes, .replies = commands.size(), .index = 0});
  } catch (const std::bad_alloc&) {
    return false;
  }
  for (const Command& command : commands) unsent_.append(command.bytes());
  size_ += commands.size();
  in_flight.open += commands.size();
  return true;
}

bool Pipeline::AppendAbout(About about, std::string_view channel, bool sharded,
                           InFlight* in_flight) noexcept try {
  const std::string bytes = BytesAbout(about, channel, sharded);
  unsent_.reserve(unsent_.size() + bytes.size());
  commands_.push_back({.in_flight = in_flight,
                       .bytes = bytes.size(),
                       .replies = 1,
                       .index = 0,
                       .about = about,
                       .channel = std::string(channel)});
  unsent_.append(bytes);
  ++size_;
  if (in_flight != nullptr) ++in_flight->open;
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

void Pipeline::AppendUnanswered(const Command& command) noexcept {
  const size_t bytes = command.bytes().size();
  base::Reserve(unsent_, unsent_.size() + bytes);
  base::WithMemory([&] {
    commands_.push_back({.in_flight = nullptr, .bytes = bytes, .replies = 1, .index = 0});
  });
  unsent_.append(command.bytes());
  ++size_;
}

void Pipeline::Prepend(const Command& command) noexcept {
  const std::string_view bytes = command.bytes();
  base::Reserve(unsent_, unsent_.size() + bytes.size());
  base::WithMemory([&] {
    commands_.push_front({.in_flight = nullptr, .bytes = bytes.size(), .replies = 1, .index = 0});
  });
  unsent_.insert(0, bytes);
  ++size_;
}

void Pipeline::PrependSubscribes(absl::Span<const std::string* const> channels,
                                 bool sharded) noexcept {
  base::WithMemory([&] {
    std::vector<InFlightCommands> all;
    std::string bytes;
    for (const std::string* const channel : channels) {
      const std::string its = BytesAbout(About::kSubscribe, *channel, sharded);
      bytes.append(its);
      all.push_back({.in_flight = nullptr,
                     .bytes = its.size(),
                     .replies = 1,
                     .index = 0,
                     .about = About::kSubscribe,
                     .channel = *channel});
    }
    unsent_.reserve(unsent_.size() + bytes.size());
    commands_.insert(commands_.begin(), std::make_move_iterator(all.begin()),
                     std::make_move_iterator(all.end()));
    unsent_.insert(0, bytes);
    size_ += channels.size();
  });
}

void Pipeline::TakeUnsent(std::string& empty) {
  unsent_.swap(empty);
  sent_ = commands_.size();
}

bool Pipeline::Deliver(Reply reply, Finished& finished) {
  if (sent_ == 0) return false;
  InFlightCommands& commands = commands_.front();
  const bool is_push = reply.type == Reply::Type::kPush;
  if (commands.about == About::kSubscribe ? !is_push && !reply.is_error() : is_push) return false;
  if (is_push && (reply.elements.size() != 3 || reply.elements[1].text != commands.channel)) {
    return false;
  }
  if (commands.about == About::kUnsubscribe) {
    if (reply.is_error()) return commands.index++ == 0;
    if (!reply.is_array()) return false;
  }
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

const std::string* Pipeline::NextAbout(About about) const {
  const bool is_next = sent_ > 0 && commands_.front().about == about;
  return is_next ? &commands_.front().channel : nullptr;
}

void Pipeline::Fail(const InFlightCommands& commands, const absl::Status& why, Finished& finished) {
  InFlight* in_flight = commands.in_flight;
  if (in_flight == nullptr) return;
  for (size_t i = 0; i < commands.replies; ++i)
    in_flight->results[commands.index + i] = base::Unshared(why);
  in_flight->open -= commands.replies;
  if (in_flight->open == 0) finished.push_back(in_flight);
}

void Pipeline::ConnectionLost(std::string_view rest, const absl::Status& sent,
                              const absl::Status& unsent, Finished& finished) noexcept {
  base::Reserve(unsent_, unsent_.size() + rest.size());  // the rest must not fail half-way
  base::Reserve(finished, finished.size() + commands_.size());
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
  size_t kept = sent_;
  size_t kept_bytes = 0;
  size_t at = 0;
  for (size_t i = sent_; i < commands_.size(); ++i) {
    InFlightCommands& commands = commands_[i];
    const size_t bytes = commands.bytes;
    if (which(commands.in_flight)) {
      Fail(commands, why, finished);
      size_ -= commands.replies;
    } else {
      std::memmove(&unsent_[kept_bytes], &unsent_[at], bytes);
      kept_bytes += bytes;
      if (kept != i) commands_[kept] = std::move(commands);
      ++kept;
    }
    at += bytes;
  }
  commands_.erase(commands_.begin() + static_cast<std::ptrdiff_t>(kept), commands_.end());
  unsent_.resize(kept_bytes);
}

bool Pipeline::Abandon(InFlight& in_flight, const absl::Status& sent, const absl::Status& unsent) {
  Finished none;  // the calling thread need not be told
  for (size_t i = 0; i < commands_.size(); ++i) {
    InFlightCommands& commands = commands_[i];
    const bool stays = i < sent_ || commands.about == About::kSubscribe;
    if (commands.in_flight != &in_flight || !stays) continue;
    Fail(commands, i < sent_ ? sent : unsent, none);
    commands.in_flight = nullptr;
    return i < sent_;
  }
  FailUnsent([&](const InFlight* each) { return each == &in_flight; }, unsent, none);
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
