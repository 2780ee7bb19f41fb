#include "src/redis/pipeline.h"

#include <utility>

namespace redlatch::redis {

void Pipeline::Append(absl::Span<const Command> commands, Exchange* exchange) {
  uint32_t index = 0;
  for (const Command& command : commands) {
    const std::string_view bytes = command.bytes();
    unsent_.append(bytes);
    expected_.push_back({exchange, index++, static_cast<uint32_t>(bytes.size())});
  }
  if (exchange != nullptr) exchange->open += commands.size();
}

void Pipeline::TakeUnsent(std::string& empty) {
  unsent_.swap(empty);
  sent_ = expected_.size();
}

void Pipeline::Finish(const Expected& expected, absl::StatusOr<Reply> result, Finished& finished) {
  Exchange* exchange = expected.exchange;
  if (exchange == nullptr) return;
  exchange->results[expected.index] = std::move(result);
  if (--exchange->open == 0) finished.push_back(exchange);
}

bool Pipeline::Deliver(Reply reply, Finished& finished) {
  if (sent_ == 0) return false;
  Finish(expected_.front(), std::move(reply), finished);
  expected_.pop_front();
  --sent_;
  return true;
}

void Pipeline::FailSent(const absl::Status& why, Finished& finished) {
  for (; sent_ > 0; --sent_) {
    Finish(expected_.front(), why, finished);
    expected_.pop_front();
  }
}

void Pipeline::FailUnsent(absl::FunctionRef<bool(const Exchange*)> which, const absl::Status& why,
                          Finished& finished) {
  std::string kept_bytes;
  size_t kept = sent_;
  size_t at = 0;
  for (size_t i = sent_; i < expected_.size(); ++i) {
    const Expected expected = expected_[i];
    if (which(expected.exchange)) {
      Finish(expected, why, finished);
    } else {
      kept_bytes.append(unsent_, at, expected.bytes);
      expected_[kept++] = expected;
    }
    at += expected.bytes;
  }
  expected_.resize(kept);
  unsent_.swap(kept_bytes);
}

bool Pipeline::Abandon(Exchange& exchange, const absl::Status& sent, const absl::Status& unsent) {
  Finished nobody;  // the one that asks is awake
  FailUnsent([&](const Exchange* each) { return each == &exchange; }, unsent, nobody);
  bool any_sent = false;
  for (size_t i = 0; i < sent_; ++i) {
    if (expected_[i].exchange != &exchange) continue;
    any_sent = true;
    exchange.results[expected_[i].index] = sent;
    expected_[i].exchange = nullptr;
    --exchange.open;
  }
  return any_sent;
}

Exchange* Pipeline::FirstWaiting() const {
  for (const Expected& expected : expected_) {
    if (expected.exchange != nullptr) return expected.exchange;
  }
  return nullptr;
}

}  // namespace redlatch::redis
