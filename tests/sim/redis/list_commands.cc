// Commands about lists: the queues of Redisson's fair locks.
#include "tests/sim/redis/command.h"

namespace redlatch::sim {
namespace {

void Push(Call& call, bool at_front) {
  List* list = GetMutable<List>(call);
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
  List* const list = GetMutable<List>(call);
  if (list == nullptr) return call.out.Nil();
  call.out.Text(list->front());
  list->erase(list->begin());
  EraseIfEmpty(call, *list);
}

void Lrem(Call& call) {
  int64_t count = Integer(call, 2);
  if (count <= 0) Unknown("this form of LREM", call.words);
  List* const list = GetMutable<List>(call);
  if (list == nullptr) return call.out.Integer(0);
  const auto removed = std::erase_if(
      *list, [&](const std::string& each) { return each == call.Word(3) && count-- > 0; });
  if (removed > 0) EraseIfEmpty(call, *list);
  call.out.Integer(static_cast<int64_t>(removed));
}

void Llen(Call& call) {
  const List* const list = Get<List>(call);
  call.out.Integer(list == nullptr ? 0 : static_cast<int64_t>(list->size()));
}

void Lindex(Call& call) {
  const List* const list = Get<List>(call);
  if (list == nullptr) return call.out.Nil();
  int64_t index = Integer(call, 2);
  const auto size = static_cast<int64_t>(list->size());
  if (index < 0) index += size;
  if (index < 0 || index >= size) return call.out.Nil();
  call.out.Text((*list)[static_cast<size_t>(index)]);
}

void Lrange(Call& call) {
  int64_t start = Integer(call, 2), stop = Integer(call, 3);
  const List* const list = Get<List>(call);
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
