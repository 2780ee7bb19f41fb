#include <algorithm>

#include "tests/sim/redis/command.h"

namespace redlatch::sim {
namespace {

void Get(Call& call) {
  const std::string* const text = Get<std::string>(call);
  text == nullptr ? call.out.Nil() : call.out.Text(*text);
}

void Mget(Call& call) {
  call.out.Array(call.size() - 1);
  for (size_t i = 1; i < call.size(); ++i) {
    const Value* const value = call.keys.Find(call.Word(i));
    const auto* const text = value == nullptr ? nullptr : std::get_if<std::string>(value);
    text == nullptr ? call.out.Nil() : call.out.Text(*text);
  }
}

struct SetOptions {
  bool if_none = false, keep_ttl = false;
  int64_t expires_ms = kNoExpiry;
};

int64_t ReadExpiry(const Call& call, size_t i, int64_t base_ms, std::string_view error) {
  const int64_t number = Integer(call, i);
  if (number <= 0 || number >= kNoExpiry - base_ms) throw ErrorReply{error};
  return number + base_ms;
}

SetOptions ReadSetOptions(const Call& call) {
  SetOptions options;
  for (size_t i = 3; i < call.size(); ++i) {
    const std::string_view word = call.Word(i);
    const bool at = EqualsIgnoringCase(word, "PXAT");
    if (EqualsIgnoringCase(word, "NX")) {
      options.if_none = true;
    } else if (EqualsIgnoringCase(word, "KEEPTTL")) {
      options.keep_ttl = true;
    } else if ((at || EqualsIgnoringCase(word, "PX")) && i + 1 < call.size()) {
      options.expires_ms = ReadExpiry(call, ++i, at ? 0 : call.keys.now_ms(),
                                      "ERR invalid expire time in 'set' command");
    } else {
      Unknown("this form of SET", call.words);
    }
  }
  return options;
}

void Set(Call& call) {
  const SetOptions options = ReadSetOptions(call);
  const std::string_view key = call.Word(1);
  if (options.if_none && call.keys.Find(key) != nullptr) return call.out.Nil();
  call.keys.Set(key, std::string(call.Word(2)), options.keep_ttl);
  if (options.expires_ms != kNoExpiry) call.keys.SetExpiry(key, options.expires_ms);
  call.out.Status("OK");
}

// DELIFEQ key value, and DELEX key IFEQ value.
void DeleteIfEqual(Call& call) {
  if (call.size() == 4 && !EqualsIgnoringCase(call.Word(2), "IFEQ")) {
    Unknown("this form of DELEX", call.words);
  }
  const std::string* const text = Get<std::string>(call);
  const bool equal = text != nullptr && *text == call.Word(call.size() - 1);
  if (equal) call.keys.Erase(call.Word(1));
  call.out.Integer(equal ? 1 : 0);
}

void Psetex(Call& call) {
  const int64_t expires_ms =
      ReadExpiry(call, 2, call.keys.now_ms(), "ERR invalid expire time in 'psetex' command");
  call.keys.Set(call.Word(1), std::string(call.Word(3)));
  call.keys.SetExpiry(call.Word(1), expires_ms);
  call.out.Status("OK");
}

void Getrange(Call& call) {
  int64_t start = Integer(call, 2), end = Integer(call, 3);
  const std::string* const text = Get<std::string>(call);
  const auto length = static_cast<int64_t>(text == nullptr ? 0 : text->size());
  if (start < 0 && end < 0 && start > end) return call.out.Text("");
  if (start < 0) start = std::max<int64_t>(0, length + start);
  if (end < 0) end = std::max<int64_t>(0, length + end);
  end = std::min(end, length - 1);
  if (length == 0 || start > end) return call.out.Text("");
  call.out.Text(std::string_view(*text).substr(static_cast<size_t>(start),
                                               static_cast<size_t>(end - start + 1)));
}

void Setrange(Call& call) {
  int64_t offset = Integer(call, 2);
  if (offset < 0) return call.out.Error("ERR offset is out of range");
  const std::string_view key = call.Word(1), piece = call.Word(3);
  std::string* text = GetMutable<std::string>(call);
  if (piece.empty()) {
    return call.out.Integer(text == nullptr ? 0 : static_cast<int64_t>(text->size()));
  }
  if (offset + static_cast<int64_t>(piece.size()) > int64_t{512} << 20) {
    return call.out.Error("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
  }
  if (text == nullptr) text = &std::get<std::string>(call.keys.Set(key, std::string()));
  const auto at = static_cast<size_t>(offset);
  if (text->size() < at + piece.size()) text->resize(at + piece.size(), '\0');
  text->replace(at, piece.size(), piece);
  call.keys.Changed(key);
  call.out.Integer(static_cast<int64_t>(text->size()));
}

void Add(Call& call, int64_t by) {
  int64_t number = 0;
  const std::string* const text = Get<std::string>(call);
  if (text != nullptr && !ParseInteger(*text, number)) return call.out.Error(kNotAnInteger);
  if (__builtin_add_overflow(number, by, &number)) {
    return call.out.Error("ERR increment or decrement would overflow");
  }
  call.keys.Set(call.Word(1), std::to_string(number), true);
  call.out.Integer(number);
}

void Incr(Call& call) { Add(call, 1); }
void Incrby(Call& call) { Add(call, Integer(call, 2)); }

void Decrby(Call& call) {
  int64_t by = Integer(call, 2);
  if (by == std::numeric_limits<int64_t>::min())
    return call.out.Error("ERR decrement would overflow");
  Add(call, -by);
}

}  // namespace

const std::vector<CommandSpec> kStringCommands = {
    {"GET", 2, 0, 1, 1, 1, Get},
    {"MGET", -2, 0, 1, -1, 1, Mget},
    {"SET", -3, kWrite | kDenyOom, 1, 1, 1, Set},
    {"DELIFEQ", 3, kWrite, 1, 1, 1, DeleteIfEqual},
    {"DELEX", 4, kWrite, 1, 1, 1, DeleteIfEqual},
    {"PSETEX", 4, kWrite | kDenyOom, 1, 1, 1, Psetex},
    {"GETRANGE", 4, 0, 1, 1, 1, Getrange},
    {"INCR", 2, kWrite | kDenyOom, 1, 1, 1, Incr},
    {"INCRBY", 3, kWrite | kDenyOom, 1, 1, 1, Incrby},
    {"DECRBY", 3, kWrite | kDenyOom, 1, 1, 1, Decrby},
    {"SETRANGE", 4, kWrite | kDenyOom, 1, 1, 1, Setrange},
};

}  // namespace redlatch::sim
