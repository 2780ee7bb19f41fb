#ifndef REDLATCH_SRC_BASE_SHORT_TEXT_H_
#define REDLATCH_SRC_BASE_SHORT_TEXT_H_

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

namespace redlatch::base {

// A text that is built by appending. It allocates no memory up to `kInline` bytes.
template <size_t kInline>
class ShortText {
 public:
  ShortText() = default;
  ShortText(const ShortText& other) { append(other.view()); }
  ShortText(ShortText&& other) noexcept { *this = std::move(other); }
  ShortText& operator=(const ShortText& other) {
    if (this != &other) *this = ShortText(other);
    return *this;
  }
  ShortText& operator=(ShortText&& other) noexcept {
    heap_ = std::move(other.heap_);
    capacity_ = std::exchange(other.capacity_, kInline);
    size_ = std::exchange(other.size_, 0);
    if (heap_ == nullptr) std::memcpy(inline_, other.inline_, size_);
    return *this;
  }
  ~ShortText() = default;

  size_t size() const { return size_; }
  std::string_view view() const { return {heap_ ? heap_.get() : inline_, size_}; }

  void append(std::string_view text) {
    if (!text.empty()) std::memcpy(Extend(text.size()), text.data(), text.size());
  }

  // Appends that many bytes, and returns where the caller must write them.
  char* Extend(size_t bytes) {
    if (capacity_ - size_ < bytes) Grow(size_ + bytes);
    char* const end = (heap_ ? heap_.get() : inline_) + size_;
    size_ += bytes;
    return end;
  }
  void Truncate(size_t size) { size_ = size; }

 private:
  void Grow(size_t least) {
    const size_t capacity = std::max(least, 2 * capacity_);
    std::unique_ptr<char[]> heap(new char[capacity]);
    std::memcpy(heap.get(), view().data(), size_);
    heap_ = std::move(heap);
    capacity_ = capacity;
  }

  size_t size_ = 0;
  size_t capacity_ = kInline;
  std::unique_ptr<char[]> heap_;
  char inline_[kInline];
};

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_SHORT_TEXT_H_
