// How awaitable calls take their options.
#ifndef REDLATCH_INTERNAL_OPTIONS_VIEW_H_
#define REDLATCH_INTERNAL_OPTIONS_VIEW_H_

#include <type_traits>

namespace redlatch::internal {

// A reference to the value of an option, for the braces of a call.
template <class Value>
class Given {
 public:
  Given() = default;
  Given(const Value& value) : value_(&value) {}  // NOLINT(google-explicit-constructor)
  // NOLINTNEXTLINE(google-explicit-constructor)
  operator Value() const { return value_ == nullptr ? Value() : *value_; }

 private:
  const Value* value_ = nullptr;
};

// An awaitable call takes its options as a variable, or as a view, which needs no destructor: GCC
// 12 destroys the members of a temporary aggregate in a co_await expression twice.
template <class From, class Options>
concept AwaitableAs = std::is_convertible_v<From, Options> &&
    (std::is_lvalue_reference_v<From> || std::is_trivially_destructible_v<From>);

}  // namespace redlatch::internal

#endif  // REDLATCH_INTERNAL_OPTIONS_VIEW_H_
