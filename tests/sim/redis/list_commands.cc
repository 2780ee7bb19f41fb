// Commands about lists: the queues of Redisson's fair locks.
#include "tests/sim/redis/command.h"

namespace redlatch::sim {
namespace {

void Push(Call& call, bool at_front) {
  bool failed = false;
  List* list = GetMutable<List>(call, call.Word(1), failed);
  if (failed) return;
  if (list == nullptr) list = &std::get<List>(call.keys.Set(call.Word(1), List()));
  for (size_t i = 2; i < call.size(); ++i) {
    list->emplace(at_front ? list->begin() : list->end(), call.Word(i));
  }
  call.keys.Changed(call.Word(1));
  call.out.Integer(static_cast<int64_t>(list->size()));
}

void Lpush(Call& call) { Push(call, true); }
void Rpush(Call& call) { Push(call, false); }

void EraseIfEmpty(Call& call, const List& list) {
  call.keys.Changed(call.Word(1));
  if (list.empty()) call.keys.Erase(call.Word(1));
}

void Lpop(Call& call) {
  bool failed = false;
  List* const list = GetMutable<List>(call, call.Word(1), failed);
  if (failed) return;
  if (list == nullptr) return call.out.Nil();
  call.out.Text(list->front());
  list->erase(list->begin());
  EraseIfEmpty(call, *list);
}

void Lrem(Call& call) {
  int64_t count = 0;
  if (!ParseInteger(call.Word(2), count)) return call.out.Error(kNotAnInteger);
  if (count <= 0) Unknown("this form of LREM", call.words);
  bool failed = false;
  List* const list = GetMutable<List>(call, call.Word(1), failed);
  if (failed) return;
  if (list == nullptr) return call.out.Integer(0);
  const auto removed = std::erase_if(
      *list, [&](const std::string& each) { return each == call.Word(3) && count-- > 0; });
  if (removed > 0) EraseIfEmpty(call, *list);
  call.out.Integer(static_cast<int64_t>(removed));
}

void Llen(Call& call) {
  bool failed = false;
  const List* const list = Get<List>(call, call.Word(1), failed);
  if (!failed) call.out.Integer(list == nullptr ? 0 : static_cast<int64_t>(list->size()));
}

void Lindex(Call& call) {
  bool failed = false;
  const List* const list = Get<List>(call, call.Word(1), failed);
  if (failed) return;
  if (list == nullptr) return call.out.Nil();
  int64_t index = 0;
  if (!ParseInteger(call.Word(2), index)) return call.out.Error(kNotAnInteger);
  const auto size = static_cast<int64_t>(list->size());
  if (index < 0) index += size;
  if (index < 0 || index >= size) return call.out.Nil();
  call.out.Text((*list)[static_cast<size_t>(index)]);
}

void Lrange(Call& call) {
  int64_t start = 0, stop = 0;
  if (!ParseInteger(call.Word(2), start) || !ParseInteger(call.Word(3), stop)) {
    return call.out.Error(kNotAnInteger);
  }
  bool failed = false;
  const List* const list = Get<List>(call, call.Word(1), failed);
  if (failed) return;
  const Range range = ByRank(start, stop, list == nullptr ? 0 : list->size());
  call.out.Array(range.last - range.first);
  for (size_t i = range.first; i < range.last; ++i) call.out.Text((*list)[i]);
}

}  // namespace

const std::vector<CommandSpec> kListCommands = {
    {"LPUSH", -3, kWrite | kDenyOom, 1, 1, 1, Lpush},
    {"RPUSH", -3, kWrite | kDenyOom, 1, 1, 1, Rpush},
    {"LPOP", 2, kWrite, 1, 1, 1, Lpop},
    {"LREM", 4, kWrite, 1, 1, 1, Lrem},
    {"LLEN", 2, 0, 1, 1, 1, Llen},
    {"LINDEX", 3, 0, 1, 1, 1, Lindex},
    {"LRANGE", 4, 0, 1, 1, 1, Lrange},
};

}  // namespace redlatch::sim
