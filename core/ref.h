// Intrusive reference counting: `RefCounted` carries the count, `Ref<T>` is the owning pointer.
// Distinct Refs to one object may be used from distinct threads; one Ref may not.
#pragma once
#include <atomic>
#include <cstdint>
#include <utility>

namespace spool {

class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;
  void retain() const noexcept { refs_.fetch_add(1, std::memory_order_relaxed); }
  void release() const noexcept {
    // The last owner skips the atomic subtraction: nobody else can see the object any more.
    if (refs_.load(std::memory_order_acquire) == 1 || refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy();
  }
  // Makes its caller the first owner. Nobody else can see the object yet, so that nothing needs to be locked.
  void adopt() const noexcept { refs_.store(1, std::memory_order_relaxed); }
  std::uint32_t use_count() const noexcept { return refs_.load(std::memory_order_acquire); }

 protected:
  virtual ~RefCounted() = default;
  // How the object goes away once nobody holds it; Node overrides it so that long chains do not recurse.
  virtual void destroy() const noexcept { delete this; }

 private:
  mutable std::atomic<std::uint32_t> refs_{0};
};

template <class T>
void retain(const T* p) noexcept {
  p->retain();
}
template <class T>
void release(const T* p) noexcept {
  p->release();
}

template <class T>
class Ref {
 public:
  Ref() noexcept = default;
  Ref(std::nullptr_t) noexcept {}
  explicit Ref(T* p) noexcept : p_(p) {
    if (p_) retain(p_);
  }
  Ref(const Ref& other) noexcept : Ref(other.p_) {}
  Ref(Ref&& other) noexcept : p_(std::exchange(other.p_, nullptr)) {}
  template <class U>
  requires(!std::is_same_v<T, U> && std::is_convertible_v<U*, T*>) Ref(Ref<U> other)
  noexcept : p_(other.leak()) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(p_, other.p_);
    return *this;
  }
  ~Ref() {
    if (p_) release(p_);
  }
  T* get() const noexcept { return p_; }
  T* operator->() const noexcept { return p_; }
  T& operator*() const noexcept { return *p_; }
  explicit operator bool() const noexcept { return p_ != nullptr; }
  friend bool operator==(const Ref& a, const Ref& b) noexcept { return a.p_ == b.p_; }
  void reset() noexcept { *this = Ref(); }
  // Gives up ownership without releasing; the caller owns one reference.
  T* leak() noexcept { return std::exchange(p_, nullptr); }
  // Takes over a reference that the caller owns.
  static Ref owning(T* p) noexcept {
    Ref r;
    r.p_ = p;
    return r;
  }

 private:
  T* p_ = nullptr;
};

template <class T, class... Args>
Ref<T> make_ref(Args&&... args) {
  T* made = new T(std::forward<Args>(args)...);
  made->adopt();
  return Ref<T>::owning(made);
}

}  // namespace spool
