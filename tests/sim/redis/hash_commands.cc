#include <algorithm>

#include "tests/sim/redis/command.h"

namespace redlatch::sim {
namespace {

void ReplyWithField(Call& call, const std::string* field) {
  field == nullptr ? call.out.Nil() : call.out.Text(*field);
}

void Hget(Call& call) {
  const Hash* const hash = Get<Hash>(call);
  ReplyWithField(call, hash == nullptr ? nullptr : hash->Find(call.Word(2)));
}

void Hmget(Call& call) {
  const Hash* const hash = Get<Hash>(call);
  call.out.Array(call.size() - 2);
  for (size_t i = 2; i < call.size(); ++i) {
    ReplyWithField(call, hash == nullptr ? nullptr : hash->Find(call.Word(i)));
  }
}

void Hexists(Call& call) {
  const Hash* const hash = Get<Hash>(call);
  call.out.Integer(hash != nullptr && hash->Find(call.Word(2)) != nullptr ? 1 : 0);
}

size_t SizeOf(const Hash* hash) { return hash == nullptr ? 0 : hash->fields().size(); }

void Hlen(Call& call) { call.out.Integer(static_cast<int64_t>(SizeOf(Get<Hash>(call)))); }

void ReplyWithFields(Call& call, const Hash* hash) {
  if (hash == nullptr) return;
  for (const auto& [name, value] : hash->fields()) call.out.All(name, value);
}

// A server returns any fields, each once.
void Hrandfield(Call& call) {
  int64_t count = Integer(call, 2);
  const bool with_values = call.size() == 4 && EqualsIgnoringCase(call.Word(3), "WITHVALUES");
  if (count < 0 || call.size() > (with_values ? 4U : 3U)) {
    Unknown("this form of HRANDFIELD", call.words);
  }
  const Hash* const hash = Get<Hash>(call);
  const size_t size = std::min(SizeOf(hash), static_cast<size_t>(count));
  with_values ? call.out.Pairs(size) : call.out.Array(size);
  for (size_t i = 0; i < size; ++i) {
    if (with_values) call.out.Pair();
    call.out.Text(hash->fields()[i].first);
    if (with_values) call.out.Text(hash->fields()[i].second);
  }
}

// The whole hash at once, as of a small one.
void Hscan(Call& call) {
  if (call.Word(2) != "0") Unknown("this form of HSCAN", call.words);
  const Hash* const hash = Get<Hash>(call);
  call.out.Array(2);
  call.out.Text("0");
  call.out.Array(2 * SizeOf(hash));
  ReplyWithFields(call, hash);
}

void Hgetall(Call& call) {
  const Hash* const hash = Get<Hash>(call);
  call.out.Map(SizeOf(hash));
  ReplyWithFields(call, hash);
}

void Hkeys(Call& call) {
  const Hash* const hash = Get<Hash>(call);
  call.out.Array(SizeOf(hash));
  for (size_t i = 0; i < SizeOf(hash); ++i) call.out.Text(hash->fields()[i].first);
}

Hash& HashToWrite(Call& call, Hash* hash) {
  return hash != nullptr ? *hash : std::get<Hash>(call.keys.Set(call.Word(1), Hash()));
}

void Hset(Call& call) {
  if (call.size() % 2 != 0) {
    return call.out.Error("ERR wrong number of arguments for 'hset' command");
  }
  Hash* const found = GetMutable<Hash>(call);
  Hash& hash = HashToWrite(call, found);
  int64_t added = 0;
  for (size_t i = 2; i < call.size(); i += 2) added += hash.Set(call.Word(i), call.Word(i + 1));
  call.keys.Changed(call.Word(1));
  call.out.Integer(added);
}

void Hsetnx(Call& call) {
  Hash* const found = GetMutable<Hash>(call);
  if (found != nullptr && found->Find(call.Word(2)) != nullptr) return call.out.Integer(0);
  HashToWrite(call, found).Set(call.Word(2), call.Word(3));
  call.keys.Changed(call.Word(1));
  call.out.Integer(1);
}

void Hdel(Call& call) {
  Hash* const hash = GetMutable<Hash>(call);
  int64_t removed = 0;
  for (size_t i = 2; hash != nullptr && i < call.size(); ++i) removed += hash->Remove(call.Word(i));
  if (removed > 0) call.keys.Changed(call.Word(1));
  if (hash != nullptr && hash->fields().empty()) call.keys.Erase(call.Word(1));
  call.out.Integer(removed);
}

void Hincrby(Call& call) {
  int64_t by = Integer(call, 3), number = 0;
  Hash* const found = GetMutable<Hash>(call);
  const std::string* const field = found == nullptr ? nullptr : found->Find(call.Word(2));
  if (field != nullptr && !ParseInteger(*field, number)) {
    return call.out.Error("ERR hash value is not an integer");
  }
  if (__builtin_add_overflow(number, by, &number)) {
    return call.out.Error("ERR increment or decrement would overflow");
  }
  HashToWrite(call, found).Set(call.Word(2), std::to_string(number));
  call.keys.Changed(call.Word(1));
  call.out.Integer(number);
}

}  // namespace

const std::vector<CommandSpec> kHashCommands = {
    {"HGET", 3, 0, 1, 1, 1, Hget},
    {"HMGET", -3, 0, 1, 1, 1, Hmget},
    {"HEXISTS", 3, 0, 1, 1, 1, Hexists},
    {"HLEN", 2, 0, 1, 1, 1, Hlen},
    {"HGETALL", 2, 0, 1, 1, 1, Hgetall},
    {"HKEYS", 2, 0, 1, 1, 1, Hkeys},
    {"HSCAN", -3, 0, 1, 1, 1, Hscan},
    {"HRANDFIELD", -3, 0, 1, 1, 1, Hrandfield},
    {"HSET", -4, kWrite | kDenyOom, 1, 1, 1, Hset},
    {"HSETNX", 4, kWrite | kDenyOom, 1, 1, 1, Hsetnx},
    {"HDEL", -3, kWrite, 1, 1, 1, Hdel},
    {"HINCRBY", 4, kWrite | kDenyOom, 1, 1, 1, Hincrby},
};

}  // namespace redlatch::sim
