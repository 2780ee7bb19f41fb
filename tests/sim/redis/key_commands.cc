// Commands about keys of any type.
#include <algorithm>

#include "tests/sim/redis/command.h"
#include "tests/sim/redis/redis_server.h"

namespace redlatch::sim {
namespace {

void Exists(Call& call) {
  int64_t count = 0;
  for (size_t i = 1; i < call.size(); ++i) count += call.keys.Find(call.Word(i)) != nullptr;
  call.out.Integer(count);
}

void Unlink(Call& call) {
  int64_t count = 0;
  for (size_t i = 1; i < call.size(); ++i) count += call.keys.Erase(call.Word(i));
  call.out.Integer(count);
}

size_t SizeOf(const Value& value) {
  if (const auto* const hash = std::get_if<Hash>(&value)) return hash->fields().size();
  const auto* const set = std::get_if<SortedSet>(&value);
  return set == nullptr ? 1 : set->members().size();
}

// Frees the values at once, element by element.
void Del(Call& call) {
  for (size_t i = 1; i < call.size(); ++i) {
    if (const Value* const value = call.keys.Find(call.Word(i))) {
      call.server.CountWork(SizeOf(*value));
    }
  }
  Unlink(call);
}

void Type(Call& call) {
  const Value* const value = call.keys.Find(call.Word(1));
  call.out.Status(value == nullptr ? "none" : TypeName(*value));
}

void Rename(Call& call) {
  if (!call.keys.Rename(call.Word(1), call.Word(2))) return call.out.Error("ERR no such key");
  call.out.Status("OK");
}

void Pttl(Call& call) {
  if (call.keys.Find(call.Word(1)) == nullptr) return call.out.Integer(-2);
  const int64_t expiry = call.keys.Expiry(call.Word(1));
  call.out.Integer(expiry == kNoExpiry ? -1 : std::max<int64_t>(0, expiry - call.keys.now_ms()));
}

void Pexpiretime(Call& call) {
  if (call.keys.Find(call.Word(1)) == nullptr) return call.out.Integer(-2);
  const int64_t expiry = call.keys.Expiry(call.Word(1));
  call.out.Integer(expiry == kNoExpiry ? -1 : expiry);
}

// A text that is equal for equal values.
void Dump(Call& call) {
  const Value* const value = call.keys.Find(call.Word(1));
  value == nullptr ? call.out.Nil() : call.out.Text(DumpValue(*value));
}

void Copy(Call& call) {
  const Value* const value = call.keys.Find(call.Word(1));
  const bool replaces = call.size() == 4 && EqualsIgnoringCase(call.Word(3), "REPLACE");
  if (value == nullptr || (!replaces && call.keys.Find(call.Word(2)) != nullptr)) {
    return call.out.Integer(0);
  }
  const int64_t expiry = call.keys.Expiry(call.Word(1));
  call.keys.Set(call.Word(2), *value);
  if (expiry != kNoExpiry) call.keys.SetExpiry(call.Word(2), expiry);
  call.out.Integer(1);
}

// PEXPIRE and PEXPIREAT, with GT or without.
void ExpireFrom(Call& call, int64_t base_ms) {
  const bool later_only = call.size() == 4 && EqualsIgnoringCase(call.Word(3), "GT");
  if (call.size() > (later_only ? 4U : 3U)) Unknown("this form of PEXPIRE", call.words);
  int64_t wanted = Integer(call, 2);
  if (wanted > kNoExpiry - base_ms) Unknown("an expiry that far away", call.words);
  wanted += base_ms;
  const std::string_view key = call.Word(1);
  const int64_t now = call.keys.Expiry(key);
  if (call.keys.Find(key) == nullptr || (later_only && (now == kNoExpiry || wanted <= now))) {
    return call.out.Integer(0);
  }
  if (wanted <= call.keys.now_ms()) {
    call.keys.Erase(key);
  } else {
    call.keys.SetExpiry(key, wanted);
  }
  call.out.Integer(1);
}

void Pexpire(Call& call) { ExpireFrom(call, call.keys.now_ms()); }
void Pexpireat(Call& call) { ExpireFrom(call, 0); }

void Persist(Call& call) {
  const bool expires = call.keys.Expiry(call.Word(1)) != kNoExpiry;
  if (expires) call.keys.SetExpiry(call.Word(1), kNoExpiry);
  call.out.Integer(expires ? 1 : 0);
}

void KeysCommand(Call& call) {
  std::vector<std::string> keys = call.keys.Keys();
  std::erase_if(keys, [&](const std::string& key) { return !MatchesGlob(key, call.Word(1)); });
  call.out.Array(keys.size());
  for (const std::string& key : keys) call.out.Text(key);
}

void Dbsize(Call& call) { call.out.Integer(static_cast<int64_t>(call.keys.Keys().size())); }

void Flush(Call& call) {
  for (const std::string& key : call.keys.Keys()) call.keys.Erase(key);
  call.out.Status("OK");
}

}  // namespace

const std::vector<CommandSpec> kKeyCommands = {
    {"EXISTS", -2, 0, 1, -1, 1, Exists},
    {"DEL", -2, kWrite, 1, -1, 1, Del},
    {"UNLINK", -2, kWrite, 1, -1, 1, Unlink},
    {"TYPE", 2, 0, 1, 1, 1, Type},
    {"RENAME", 3, kWrite, 1, 2, 1, Rename},
    {"COPY", -3, kWrite | kDenyOom, 1, 2, 1, Copy},
    {"PTTL", 2, 0, 1, 1, 1, Pttl},
    {"PEXPIRETIME", 2, 0, 1, 1, 1, Pexpiretime},
    {"DUMP", 2, 0, 1, 1, 1, Dump},
    {"PEXPIRE", -3, kWrite, 1, 1, 1, Pexpire},
    {"PEXPIREAT", -3, kWrite, 1, 1, 1, Pexpireat},
    {"PERSIST", 2, kWrite, 1, 1, 1, Persist},
    {"KEYS", 2, 0, 0, 0, 0, KeysCommand},
    {"DBSIZE", 1, 0, 0, 0, 0, Dbsize},
    {"FLUSHALL", -1, kWrite, 0, 0, 0, Flush},
};

}  // namespace redlatch::sim
