#include "src/quorum/vote.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "src/base/words.h"
#include "src/redis/wire/errors.h"

namespace redlatch::quorum {
namespace {

constexpr size_t kTicketWord = 5;

using base::TakeNumber;
using base::TakeWord;

bool TakeQueued(std::string_view& text, Vote& vote) {
  int64_t position = 0;
  return TakeNumber(text, vote.wait_ms) && TakeNumber(text, position) &&
         TakeNumber(text, vote.ticket);
}

bool TakeNotes(std::string_view text, Vote& vote) {
  while (!text.empty()) {
    const std::string_view word = TakeWord(text);
    if (word == "look" && !TakeNumber(text, vote.look_ms > 0 ? vote.look_later_ms : vote.look_ms)) {
      return false;
    }
    vote.deaf |= word == "deaf";
  }
  return true;
}

// What it says, but for the notes.
bool TakeWords(std::string_view& text, Vote& vote) {
  using enum Vote::Kind;
  const std::string_view word = TakeWord(text);
  if (word == "granted") {
    vote.kind = kYes;
    int64_t others = 0;
    const bool good = TakeNumber(text, vote.token) && TakeNumber(text, vote.lease_ms) &&
                      TakeNumber(text, others) && TakeNumber(text, vote.clock_us);
    vote.others = others > 0;
    return good;
  }
  if (word == "queued") {
    vote.kind = kQueued;
    return TakeQueued(text, vote);
  }
  if (word == "busy") {
    vote.kind = kNo;
    return TakeNumber(text, vote.wait_ms);
  }
  if (word == "young") {
    vote.kind = kYoung;
    return TakeNumber(text, vote.wait_ms);
  }
  if (word == "released") {
    vote.kind = kYes;
    if (text.starts_with("queued ")) {
      TakeWord(text);
      vote.queued_behind = true;
      return TakeQueued(text, vote);
    }
    vote.gone_behind = text.starts_with("gone");
    if (vote.gone_behind) TakeWord(text);
    return true;
  }
  if (word == "gone") {
    vote.kind = kGone;
    return true;
  }
  if (word == "held" || word == "raised" || word == "passed_on") {
    vote.kind = kYes;
    return true;
  }
  vote.kind = kNo;
  return word == "not_held" || word == "above" || word == "left" || word == "unknown";
}

}  // namespace

bool Vote::uncertain() const {
  return kind == Kind::kOpen || (kind == Kind::kFailed && redis::MayHaveExecuted(failure));
}

Vote ReadVote(const absl::StatusOr<redis::Reply>& answer) {
  Vote vote;
  if (!answer.ok()) {
    vote.kind = Vote::Kind::kFailed;
    vote.failure = answer.status();
    return vote;
  }
  std::string_view text = answer->text;
  if (answer->is_array() || !TakeWords(text, vote) || !TakeNotes(text, vote)) {
    vote = {};
    vote.kind = Vote::Kind::kForeign;
  }
  return vote;
}

Terms ReadTerms(std::string_view word) {
  Terms terms;
  int wait = 0;
  int listen = 0;
  int64_t unread = 0;
  if (TakeNumber(word, terms.block) && TakeNumber(word, terms.attempt) && TakeNumber(word, wait) &&
      TakeNumber(word, unread) && TakeNumber(word, unread) && TakeNumber(word, terms.ticket) &&
      TakeNumber(word, unread) && TakeNumber(word, listen)) {
    terms.wait = wait == 1;
    terms.listen = listen == 1;
  }
  return terms;
}

std::string WithTicket(std::string_view word, uint64_t ticket) {
  std::vector<std::string> words = absl::StrSplit(absl::string_view(word.data(), word.size()), ' ');
  if (words.size() > kTicketWord) words[kTicketWord] = absl::StrCat(ticket);
  return absl::StrJoin(words, " ");
}

}  // namespace redlatch::quorum
