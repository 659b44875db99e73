// Inline<T, N>: a vector whose first N elements live inside the object, so that short lists cost no allocation.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <new>
#include <utility>

namespace spool {

template <class T, std::size_t N>
class Inline {
 public:
  Inline() noexcept = default;
  Inline(std::initializer_list<T> items) {
    reserve(items.size());
    for (const T& item : items) emplace_back(item);
  }
  Inline(const Inline& other) {
    reserve(other.size_);
    for (const T& item : other) emplace_back(item);
  }
  Inline(Inline&& other) noexcept { take(other); }
  Inline& operator=(Inline other) noexcept {
    destroy();
    take(other);
    return *this;
  }
  ~Inline() { destroy(); }

  template <class... Args>
  T& emplace_back(Args&&... args) {
    if (size_ == capacity_) reserve(2 * capacity_);
    return *new (data_ + size_++) T(std::forward<Args>(args)...);
  }
  void push_back(T item) { emplace_back(std::move(item)); }
  void resize(std::size_t n) {
    reserve(n);
    while (size_ < n) emplace_back();
    while (size_ > n) data_[--size_].~T();
  }
  void reserve(std::size_t n) {
    if (n <= capacity_) return;
    T* grown = static_cast<T*>(::operator new(n * sizeof(T)));
    std::uninitialized_move_n(data_, size_, grown);
    std::destroy_n(data_, size_);
    if (!is_inline()) ::operator delete(data_);
    data_ = grown;
    capacity_ = n;
  }
  void clear() noexcept {
    std::destroy_n(data_, size_);
    size_ = 0;
  }

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  T* data() noexcept { return data_; }
  const T* data() const noexcept { return data_; }
  T* begin() noexcept { return data_; }
  T* end() noexcept { return data_ + size_; }
  const T* begin() const noexcept { return data_; }
  const T* end() const noexcept { return data_ + size_; }
  T& operator[](std::size_t i) noexcept { return data_[i]; }
  const T& operator[](std::size_t i) const noexcept { return data_[i]; }
  T& back() noexcept { return data_[size_ - 1]; }

 private:
  T* inline_data() noexcept { return reinterpret_cast<T*>(buffer_); }
  bool is_inline() noexcept { return data_ == inline_data(); }
  void destroy() noexcept {
    clear();
    if (!is_inline()) ::operator delete(data_);
    data_ = inline_data();
    capacity_ = N;
  }
  void take(Inline& other) noexcept {  // *this is empty and inline
    if (other.is_inline()) {
      std::uninitialized_move_n(other.data_, other.size_, data_);
      size_ = other.size_;
      other.clear();
    } else {
      data_ = std::exchange(other.data_, other.inline_data());
      capacity_ = std::exchange(other.capacity_, N);
      size_ = std::exchange(other.size_, 0);
    }
  }

  alignas(T) std::byte buffer_[N * sizeof(T)];
  T* data_ = inline_data();
  std::size_t size_ = 0;
  std::size_t capacity_ = N;
};

}  // namespace spool
