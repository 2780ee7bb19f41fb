#include "tests/support/history_check/history_event.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace redlatch::history {
namespace {

// In the order of What and of Kind.
constexpr std::array<absl::string_view, 12> kWhats = {"semaphore", "acquire", "force", "ok",
                                                      "failed",    "unknown", "until", "release",
                                                      "released",  "lost",    "calm",  "storm"};
constexpr std::array<absl::string_view, 5> kKinds = {"lock", "reentrant", "write", "read",
                                                     "permits"};

template <class Enum, size_t kSize>
bool Find(const std::array<absl::string_view, kSize>& names, absl::string_view name, Enum& found) {
  const auto at = std::find(names.begin(), names.end(), name);
  found = static_cast<Enum>(at - names.begin());
  return at != names.end();
}

absl::string_view NameOfAmount(What what) { return what == What::kCalm ? "bound" : "permits"; }

bool SetDetail(absl::string_view key, absl::string_view value, HistoryEvent& event) {
  if (key == "object") event.object = value;
  if (key == "owner") event.owner = value;
  if (key == "waits") event.waits = value == "yes";
  if (key == "object" || key == "owner" || key == "waits") return !value.empty();
  if (key == "kind") return Find(kKinds, value, event.kind);
  if (key == "token") return absl::SimpleAtoi(value, &event.token);
  if (key == "until") return absl::SimpleAtoi(value, &event.until);
  return key == NameOfAmount(event.what) && absl::SimpleAtoi(value, &event.amount);
}

}  // namespace

std::string ToLine(const HistoryEvent& event) {
  std::string line =
      absl::StrCat(event.time, " ", event.call, " ", kWhats.at(static_cast<size_t>(event.what)));
  const auto add = [&line](absl::string_view key, auto value) {
    absl::StrAppend(&line, " ", key, "=", value);
  };
  if (!event.object.empty()) add("object", event.object);
  if (event.what == What::kAcquire) add("kind", kKinds.at(static_cast<size_t>(event.kind)));
  if (!event.owner.empty()) add("owner", event.owner);
  if (event.waits) add("waits", "yes");
  if (event.token != 0) add("token", event.token);
  if (event.until != kNever) add("until", event.until);
  if (event.amount >= 0) add(NameOfAmount(event.what), event.amount);
  return line;
}

absl::StatusOr<HistoryEvent> ParseLine(absl::string_view line) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
  HistoryEvent event;
  if (words.size() < 3 || !absl::SimpleAtoi(words[0], &event.time)) {
    return absl::InvalidArgumentError("a line begins with a time, a call and an event");
  }
  event.call = words[1];
  if (!Find(kWhats, words[2], event.what)) {
    return absl::InvalidArgumentError(absl::StrCat("there is no event \"", words[2], "\""));
  }
  for (size_t i = 3; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    if (equals == absl::string_view::npos ||
        !SetDetail(words[i].substr(0, equals), words[i].substr(equals + 1), event)) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", words[i], "\" says nothing about \"", words[2], "\""));
    }
  }
  return event;
}

std::string History::Words(uint64_t line) const {
  const Line& one = lines.at(line - 1);
  return absl::StrCat(files[one.file], ":", one.number, ": ", one.text);
}

absl::StatusOr<History> ReadHistory(std::vector<std::string> files) {
  History history;
  history.files = std::move(files);
  for (size_t file = 0; file < history.files.size(); ++file) {
    const std::ifstream stream(history.files[file]);
    if (!stream) return absl::NotFoundError(absl::StrCat(history.files[file], " cannot be read"));
    std::ostringstream text;
    text << stream.rdbuf();
    absl::string_view rest = history.texts.emplace_back(std::move(text).str());
    size_t number = 1;
    for (size_t end = 0; (end = rest.find('\n')) != absl::string_view::npos; ++number) {
      const absl::string_view line = rest.substr(0, end);
      rest.remove_prefix(end + 1);
      if (line.empty() || line.front() == '#') continue;
      history.lines.push_back({.file = file, .number = number, .text = line});
      absl::StatusOr<HistoryEvent> event = ParseLine(line);
      if (!event.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat(history.Words(history.lines.size()), ": ", event.status().message()));
      }
      event->line = history.lines.size();
      history.events.push_back(*event);
    }
  }
  std::stable_sort(history.events.begin(), history.events.end(),
                   [](const HistoryEvent& a, const HistoryEvent& b) { return a.time < b.time; });
  return history;
}

}  // namespace redlatch::history
