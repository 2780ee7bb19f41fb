#include "src/quorum/round.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "src/redis/link/scripts.h"
#include "src/redis/wire/errors.h"

namespace redlatch::quorum {
namespace {

// Where another thread reads a connection it may leave before these answers have come.
constexpr absl::Duration kTurn = absl::Milliseconds(1);
constexpr absl::Duration kFollowFor = absl::Milliseconds(200);
constexpr absl::Duration kLongestTurn = absl::Milliseconds(50);

redis::ScriptCall Views(const OwnCall& call, std::vector<std::string_view>& words) {
  words.assign(call.keys.begin(), call.keys.end());
  words.insert(words.end(), call.args.begin(), call.args.end());
  const auto all = absl::MakeConstSpan(words);
  return {.script = call.script,
          .keys = all.subspan(0, call.keys.size()),
          .args = all.subspan(call.keys.size())};
}

}  // namespace

redis::Command Encode(Node& node, const OwnCall& call, bool by_text) {
  std::vector<std::string_view> words;
  if (call.plain != nullptr) return *call.plain;
  if (call.script == nullptr) {
    words.assign(call.args.begin(), call.args.end());
    return redis::Command(words);
  }
  return redis::EncodeCall(node.at().WordingOf(Views(call, words)), by_text);
}

Round::~Round() {
  mailbox_->Close();
  for (const Question* const question : questions_) {
    if (question->hear == nullptr) continue;
    for (size_t node = 0; node < nodes_.size(); ++node) {
      if ((question->coming & Only(node)) == 0) continue;
      (*question->hear)(node, *nodes_[node],
                        redis::MarkNotSent(absl::UnavailableError("not asked: not connected yet")));
    }
  }
}

void Round::Put(Question& question, NodeSet to) {
  questions_.push_back(&question);
  for (size_t node = 0; node < nodes_.size(); ++node) {
    if ((to & Only(node)) != 0) {
      Send(questions_.size() - 1, node, /*by_text=*/false);
    } else {
      question.votes[node].kind = Vote::Kind::kNo;
    }
  }
}

void Round::Send(size_t index, size_t node, bool by_text) {
  Question& question = *questions_[index];
  auto deliver = [mailbox = mailbox_, index, node, &its = *nodes_[node],
                  hear = question.hear](absl::StatusOr<redis::Reply> answer) {
    if (hear != nullptr) (*hear)(node, its, answer);
    mailbox->Deliver({.call = index, .node = node, .answer = std::move(answer)});
  };
  const auto come = [&]() -> Node::Come {
    return [mailbox = mailbox_, index, node](const absl::Status& failure) {
      Mailbox::Letter letter;
      letter.call = index;
      letter.node = node;
      letter.connected = failure.ok();
      if (!failure.ok()) letter.answer = redis::MarkNotSent(failure);
      mailbox->Deliver(std::move(letter));
    };
  };
  std::optional<redis::Command> own;
  if (!question.alike || by_text) {
    own = Encode(*nodes_[node], question.call_of(node), by_text);
  } else if (!question.words) {
    question.words = Encode(*nodes_[node], question.call_of(node), by_text);
  }
  const redis::Command& command = own ? *own : *question.words;
  const Node::Sent sent = nodes_[node]->Ask(question.key, command, std::move(deliver), come);
  if (sent == Node::Sent::kComing) question.coming |= Only(node);
  if (sent == Node::Sent::kDown) {
    question.votes[node].kind = Vote::Kind::kFailed;
    question.votes[node].failure = redis::MarkNotSent(nodes_[node]->failure());
    if (question.hear != nullptr)
      (*question.hear)(node, *nodes_[node], question.votes[node].failure);
  }
}

void Round::Take(Mailbox::Letter letter) {
  if (letter.connected) {
    questions_[letter.call]->coming &= ~Only(letter.node);
    return Send(letter.call, letter.node, /*by_text=*/false);
  }
  if (letter.answer.ok() && letter.answer->is_error()) return TakeError(letter);
  Question& question = *questions_[letter.call];
  question.votes[letter.node] = ReadVote(letter.answer);
  question.answers[letter.node] = std::move(letter.answer);
}

void Round::TakeError(Mailbox::Letter& letter) {
  using redis::ErrorCode;
  Question& question = *questions_[letter.call];
  Node& node = *nodes_[letter.node];
  const ErrorCode code = redis::ClassifyError(letter.answer->text);
  if (code == ErrorCode::kNoScript) return Send(letter.call, letter.node, /*by_text=*/true);
  const bool elsewhere = code == ErrorCode::kMoved || code == ErrorCode::kAsk ||
                         code == ErrorCode::kTryAgain || code == ErrorCode::kClusterDown;
  if (!elsewhere || question.call_of(letter.node).script == nullptr) {
    question.answers[letter.node] = redis::ErrorStatus(letter.answer->text, node.server());
    question.votes[letter.node] = ReadVote(question.answers[letter.node]);
    return;
  }
  // A cluster whose slot moves: the node's own thread follows it.
  const bool follows = node.Do([&node, mailbox = mailbox_, call = question.call_of(letter.node),
                                hear = question.hear, index = letter.call, which = letter.node] {
    std::vector<std::string_view> words;
    const base::Instant until = base::Now() + kFollowFor;
    auto answer = node.at().Run(Views(call, words), until, redis::AlwaysWanted);
    if (hear != nullptr) (*hear)(which, node, answer);
    mailbox->Deliver({.call = index, .node = which, .answer = std::move(answer)});
  });
  if (follows) return;
  question.answers[letter.node] = redis::MarkNotSent(absl::UnavailableError(
      absl::StrCat(node.server(), " moves slots, and too many calls wait for it already")));
  question.votes[letter.node] = ReadVote(question.answers[letter.node]);
}

void Round::Await(absl::FunctionRef<bool()> enough, base::Instant deadline) {
  while (!enough() && base::Now() < deadline) {
    std::vector<Mailbox::Letter> letters = mailbox_->Take();
    if (letters.empty()) {
      Listen(deadline);
      letters = mailbox_->Take();
    }
    for (Mailbox::Letter& letter : letters) Take(std::move(letter));
  }
}

// Reads what has come, or waits for something to come.
void Round::Listen(base::Instant until) {
  absl::InlinedVector<pollfd, 8> fds;
  absl::InlinedVector<size_t, 8> open;
  absl::InlinedVector<std::string_view, 8> keys;
  until = std::min(until, base::Now() + kLongestTurn);
  fds.push_back({.fd = mailbox_->wake_fd(), .events = POLLIN, .revents = 0});
  bool ready = false;
  for (size_t node = 0; node < nodes_.size(); ++node) {
    const auto asked = std::find_if(questions_.begin(), questions_.end(), [&](const Question* q) {
      return q->votes[node].kind == Vote::Kind::kOpen;
    });
    if (asked == questions_.end()) continue;
    const redis::Transport::Polled polled = nodes_[node]->at().BeginPoll((*asked)->key);
    if (polled.fd < 0) until = std::min(until, base::Now() + kTurn);
    until = std::min(until, polled.until);
    ready |= polled.already.readable;
    fds.push_back({.fd = polled.fd, .events = polled.events, .revents = 0});
    open.push_back(node);
    keys.push_back((*asked)->key);
  }
  const int came = base::Poll(fds.data(), fds.size(), ready ? base::Instant() : until);
  if (came > 0 && fds[0].revents != 0) Mailbox::DrainWake();
  for (size_t i = 0; i < open.size(); ++i) {
    const bool readable = came > 0 && fds[i + 1].revents != 0;
    if (readable || ready || came == 0) nodes_[open[i]]->at().Drain(keys[i], base::Instant());
  }
}

}  // namespace redlatch::quorum
