#include "tests/sim/redis/command.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tests/sim/redis/keyspace.h"

namespace redlatch::sim {
namespace {

// A command, and the subcommands of that name.
struct Named {
  const CommandSpec* command = nullptr;
  std::vector<const CommandSpec*> subcommands;
};

StringMap<Named> MakeTable() {
  StringMap<Named> table;
  for (const auto* list :
       {&kKeyCommands, &kStringCommands, &kHashCommands, &kListCommands, &kSortedSetCommands,
        &kServerCommands, &kPubSubCommands, &kScriptCommands, &kClusterCommands}) {
    for (const CommandSpec& command : *list) {
      Named& named = table[command.name.substr(0, command.name.find(' '))];
      const bool two = command.name.find(' ') != std::string_view::npos;
      two ? named.subcommands.push_back(&command) : void(named.command = &command);
    }
  }
  return table;
}

const Named* Find(std::string_view name) {
  static const auto* const table = new StringMap<Named>(MakeTable());
  auto found = table->find(name);
  if (found == table->end()) found = table->find(absl::AsciiStrToUpper(std::string(name)));
  return found == table->end() ? nullptr : &found->second;
}

}  // namespace

void CommandSpec::Execute(Call& call) const {
  try {
    run(call);
  } catch (const ErrorReply& reply) {
    call.out.Error(reply.error);
  }
}

std::string CommandSpec::LowerName() const {
  std::string lower = absl::AsciiStrToLower(std::string(name));
  for (char& letter : lower) {
    if (letter == ' ') letter = '|';
  }
  return lower;
}

const CommandSpec* FindCommand(Words words) {
  const Named* const named = Find(words[0]);
  if (named == nullptr) return nullptr;
  for (const CommandSpec* const command : named->subcommands) {
    const size_t second = command->name.find(' ') + 1;
    if (words.size() > 1 && EqualsIgnoringCase(words[1], command->name.substr(second))) {
      return command;
    }
  }
  return named->command;
}

void KeyPositions(const CommandSpec& command, Words words, std::vector<size_t>& positions) {
  if (command.is(kKeysByNumber)) {
    int64_t count = 0;
    if (words.size() > 2) ParseInteger(words[2], count);
    for (size_t i = 3; i < words.size() && i < 3 + static_cast<size_t>(count); ++i) {
      positions.push_back(i);
    }
    return;
  }
  if (command.first_key == 0) return;
  const int size = static_cast<int>(words.size());
  const int last = command.last_key < 0 ? size + command.last_key : command.last_key;
  for (int i = command.first_key; i <= last && i < size; i += command.key_step) {
    positions.push_back(static_cast<size_t>(i));
  }
}

void Unknown(std::string_view what, Words words) {
  std::fprintf(stderr, "The simulated Redis does not know %.*s:", static_cast<int>(what.size()),
               what.data());
  for (const std::string_view word : words) {
    std::fprintf(stderr, " %s", absl::CEscape(std::string(word.substr(0, 200))).c_str());
  }
  std::fprintf(stderr, "\nTeach it that in tests/sim/redis/.\n");
  std::abort();
}

bool EqualsIgnoringCase(std::string_view text, std::string_view upper) {
  if (text.size() != upper.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (absl::ascii_toupper(static_cast<unsigned char>(text[i])) != upper[i]) return false;
  }
  return true;
}

bool ParseInteger(std::string_view text, int64_t& number) {
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  // Like Redis, it rejects leading zeros and negative zero.
  return parsed.ec == std::errc() && parsed.ptr == end &&
         (text == "0" || (text[0] != '0' && !text.starts_with("-0")));
}

bool ParseScore(std::string_view text, double& score) {
  int64_t number = 0;
  if (text.size() < 16 && ParseInteger(text, number)) {
    score = static_cast<double>(number);
    return true;
  }
  const std::string copy(text);
  char* end = nullptr;
  score = std::strtod(copy.c_str(), &end);
  return !copy.empty() && absl::ascii_isspace(static_cast<unsigned char>(copy[0])) == 0 &&
         *end == '\0' && end == copy.c_str() + copy.size() && !std::isnan(score);
}

Range ByRank(int64_t start, int64_t stop, size_t size) {
  const auto length = static_cast<int64_t>(size);
  if (start < 0) start = std::max<int64_t>(0, start + length);
  if (stop < 0) stop += length;
  stop = std::min(stop, length - 1);
  if (start > stop || start >= length) return {};
  return {static_cast<size_t>(start), static_cast<size_t>(stop) + 1};
}

}  // namespace redlatch::sim
