// Storage: the bytes behind one or more tensors.
#pragma once
#include <cstddef>
#include <cstdint>

#include "spool/core/allocator.h"
#include "spool/core/device.h"
#include "spool/core/ref.h"

namespace spool {

class Storage final : public RefCounted, public PooledObject {
 public:
  // Uninitialised memory from the caching allocator of `device`.
  static Ref<Storage> make(std::size_t bytes, Device device);
  // The same where the bytes have a block of their own.
  Storage(std::size_t bytes, Device device);
  // Memory of somebody else's; `release(context)` is called when the last tensor lets go, and may be null.
  Storage(void* data, std::size_t bytes, Device device, void (*release)(void*), void* context);

  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  Device device() const noexcept { return device_; }
  // Counts the times the contents were overwritten in place; saved tensors compare it.
  std::uint32_t version() const noexcept { return version_; }
  void bump_version() noexcept { ++version_; }

 private:
  // Few bytes lie behind the object itself, in one block with it.
  static constexpr std::size_t kInline = 192, kHeader = 64;
  struct Inline {};
  Storage(Inline, std::size_t bytes) noexcept
      : data_(reinterpret_cast<std::byte*>(this) + kHeader), bytes_(bytes), owned_(false), inline_(true) {}
  ~Storage() override;
  void destroy() const noexcept override;
  std::byte* data_;
  std::size_t bytes_;
  void (*release_)(void*) = nullptr;
  void* context_ = nullptr;
  std::uint32_t version_ = 0;
  Device device_;
  bool owned_, inline_ = false;
};

}  // namespace spool
