#include "src/cli/run_options.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace redlatch::cli {
namespace {

constexpr absl::Duration kShortestLease = absl::Milliseconds(100);
constexpr absl::Duration kLongestGrace = absl::Seconds(10);  // where none is given

absl::Status Wrong(const std::string& what, const std::string& mend) {
  return absl::InvalidArgumentError(absl::StrCat(what, ": ", mend));
}

// "10s", "1m30s", "inf"; a bare number is seconds.
bool ParseTime(const std::string& text, absl::Duration* time) {
  double seconds = 0;
  if (absl::SimpleAtod(text, &seconds)) {
    if (std::isnan(seconds)) return false;
    *time = absl::Seconds(seconds);
  } else if (!absl::ParseDuration(text, time)) {
    return false;
  }
  return *time >= absl::ZeroDuration();
}

class Parser {
 public:
  Parser(const std::vector<std::string>& words, const std::string& url) : words_(words) {
    options_.server = url;
  }

  absl::StatusOr<RunOptions> Parse() {
    bool separated = false;
    while (at_ < words_.size() && !separated && !options_.help) {
      const std::string& word = words_[at_++];
      if (word == "--") {
        separated = true;
      } else if (word.size() > 1 && word[0] == '-') {
        if (absl::Status taken = TakeOption(word); !taken.ok()) return taken;
      } else if (!name_) {
        name_ = word;
      } else {
        return Wrong(absl::StrCat("\"", absl::Utf8SafeCEscape(word), "\" after the lock's name"),
                     "put -- before the command, as in: redlatch run NAME -- CMD ARGS");
      }
    }
    if (options_.help) return options_;
    options_.command.assign(words_.begin() + static_cast<ptrdiff_t>(at_), words_.end());
    if (absl::Status complete = Complete(separated); !complete.ok()) return complete;
    return options_;
  }

 private:
  absl::Status TakeOption(const std::string& word) {
    const size_t equals = word.find('=');
    const std::string option = word.substr(0, equals);
    value_.reset();
    if (equals != std::string::npos) value_ = word.substr(equals + 1);

    if (option == "-h" || option == "--help") return Flag(option, &options_.help);
    if (option == "--shared") return Kind(option, RunKind::kShared);
    if (option == "--write") return Kind(option, RunKind::kWrite);
    if (option == "--permits") return Number(option, 1, &options_.permits, &permits_given_);
    if (option == "--capacity") return Number(option, 1, &options_.capacity, &capacity_given_);
    if (option == "--wait") return Time(option, &options_.wait);
    if (option == "--lease") return Time(option, &options_.lease);
    if (option == "--grace") {
      grace_given_ = true;
      return Time(option, &options_.grace);
    }
    if (option == "--server") return Text(option, "a URL", &options_.server);
    if (option == "--on-lost") return OnLost(option);
    if (option == "--busy-code") return BusyCode(option);
    return Wrong(absl::StrCat(absl::Utf8SafeCEscape(option), " is no option of redlatch run"),
                 "see redlatch run --help; the command's own come after --");
  }

  absl::Status Flag(const std::string& option, bool* flag) {
    if (value_) return Wrong(option, "takes no value");
    *flag = true;
    return absl::OkStatus();
  }

  absl::Status Kind(const std::string& option, RunKind kind) {
    if (options_.kind != RunKind::kPlain && options_.kind != kind) {
      return Wrong("--shared and --write", "give one of them");
    }
    options_.kind = kind;
    bool ignored = false;
    return Flag(option, &ignored);
  }

  // The option's value: behind '=', or the next word.
  absl::Status Text(const std::string& option, const char* what, std::string* text) {
    if (!value_) {
      if (at_ == words_.size() || words_[at_] == "--") {
        return Wrong(absl::StrCat(option, " lacks its value"), absl::StrCat("give it ", what));
      }
      value_ = words_[at_++];
    }
    *text = *value_;
    return absl::OkStatus();
  }

  absl::Status Time(const std::string& option, absl::Duration* time) {
    std::string text;
    if (absl::Status got = Text(option, "a time, as in 10s", &text); !got.ok()) return got;
    if (ParseTime(text, time)) return absl::OkStatus();
    return Wrong(absl::StrCat(option, " ", absl::Utf8SafeCEscape(text), " is no time"),
                 "say 500ms, 10s, 1m30s, 2h, or a number of seconds");
  }

  absl::Status Number(const std::string& option, int64_t least, int64_t* number, bool* given) {
    std::string text;
    if (absl::Status got = Text(option, "a number", &text); !got.ok()) return got;
    *given = true;
    if (absl::SimpleAtoi(text, number) && *number >= least) return absl::OkStatus();
    return Wrong(absl::StrCat(option, " ", absl::Utf8SafeCEscape(text)),
                 absl::StrCat("a whole number from ", least, " is needed"));
  }

  absl::Status OnLost(const std::string& option) {
    std::string text;
    if (absl::Status got = Text(option, "kill or warn", &text); !got.ok()) return got;
    options_.kill_on_lost = text == "kill";
    if (text == "kill" || text == "warn") return absl::OkStatus();
    return Wrong(absl::StrCat("--on-lost ", absl::Utf8SafeCEscape(text)), "say kill or warn");
  }

  absl::Status BusyCode(const std::string& option) {
    int64_t code = 0;
    bool ignored = false;
    if (absl::Status got = Number(option, 0, &code, &ignored); !got.ok()) return got;
    options_.busy_code = static_cast<int>(code);
    if (code <= 255) return absl::OkStatus();
    return Wrong("--busy-code", "an exit code is 0 to 255");
  }

  absl::Status Complete(bool separated) {
    if (!name_ || name_->empty()) {
      return Wrong("the lock's name is missing", "redlatch run NAME -- CMD ARGS");
    }
    options_.name = *name_;
    if (!separated || options_.command.empty()) {
      return Wrong("the command is missing", "redlatch run NAME -- CMD ARGS");
    }
    if (permits_given_ || capacity_given_) {
      if (options_.kind != RunKind::kPlain) {
        return Wrong("--permits with --shared or --write", "a lock is of one kind");
      }
      if (!capacity_given_) {
        return Wrong("--permits without --capacity",
                     "say how many there are in all, as in --permits 1 --capacity 4");
      }
      if (options_.permits > options_.capacity) {
        return Wrong("--permits is more than --capacity", "so many will never be free");
      }
      options_.kind = RunKind::kPermits;
    }
    return CompleteTimes();
  }

  absl::Status CompleteTimes() {
    if (options_.lease < kShortestLease || options_.lease > absl::Hours(24)) {
      return Wrong("--lease", "100ms to 24h");
    }
    if (!grace_given_) options_.grace = std::min(options_.lease / 3, kLongestGrace);
    if (options_.grace > options_.lease / 2) {
      return Wrong("--grace is more than half of the lease",
                   absl::StrCat("the command must be gone before the lease ends; at most ",
                                absl::FormatDuration(options_.lease / 2), ", or a longer --lease"));
    }
    return absl::OkStatus();
  }

  const std::vector<std::string>& words_;
  size_t at_ = 0;
  std::optional<std::string> value_;  // of the option at hand, behind its '='
  std::optional<std::string> name_;
  bool permits_given_ = false;
  bool capacity_given_ = false;
  bool grace_given_ = false;
  RunOptions options_;
};

}  // namespace

absl::StatusOr<RunOptions> ParseRunOptions(const std::vector<std::string>& words,
                                           const std::string& url) {
  return Parser(words, url).Parse();
}

}  // namespace redlatch::cli
