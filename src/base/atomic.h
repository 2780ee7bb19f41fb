#ifndef REDLATCH_SRC_BASE_ATOMIC_H_
#define REDLATCH_SRC_BASE_ATOMIC_H_

#include <atomic>

namespace redlatch::base {

#ifndef REDLATCH_INTERRUPTIBLE

template <class T>
using Atomic = std::atomic<T>;

#else

// What a thread does before it uses an atomic variable: the simulator lets others run.
inline void (*interrupt)() = nullptr;

template <class T>
class Atomic : public std::atomic<T> {
  using Base = std::atomic<T>;
  using Order = std::memory_order;

 public:
  constexpr Atomic() = default;
  constexpr Atomic(T value) : Base(value) {}  // NOLINT(google-explicit-constructor)
  T load(Order order = Order::seq_cst) const { return Interrupted().Base::load(order); }
  operator T() const { return load(); }  // NOLINT(google-explicit-constructor)
  void store(T value, Order order = Order::seq_cst) { Interrupted().Base::store(value, order); }
  T operator=(T value) { return store(value), value; }
  T exchange(T value, Order order = Order::seq_cst) {
    return Interrupted().Base::exchange(value, order);
  }
  template <class... Orders>
  bool compare_exchange_strong(T& expected, T value, Orders... orders) {
    return Interrupted().Base::compare_exchange_strong(expected, value, orders...);
  }
  template <class... Orders>
  bool compare_exchange_weak(T& expected, T value, Orders... orders) {
    return Interrupted().Base::compare_exchange_weak(expected, value, orders...);
  }
  T fetch_add(T value, Order order = Order::seq_cst) {
    return Interrupted().Base::fetch_add(value, order);
  }
  T fetch_sub(T value, Order order = Order::seq_cst) {
    return Interrupted().Base::fetch_sub(value, order);
  }
  T operator++() { return Interrupted().Base::operator++(); }
  T operator--() { return Interrupted().Base::operator--(); }

 private:
  static void Interrupt() {
    if (interrupt != nullptr) interrupt();
  }
  Atomic& Interrupted() { return Interrupt(), *this; }
  const Atomic& Interrupted() const { return Interrupt(), *this; }
};

#endif

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_ATOMIC_H_
