#include "spool/core/storage.h"

#if SPOOL_WITH_CUDA
#include "spool/core/cuda/runtime.h"
#endif

namespace spool {
namespace {

#if SPOOL_WITH_CUDA
void* allocate_on(Device device, std::size_t bytes) {
  return device.is_cuda() ? cuda::allocate(bytes, device.index) : allocate(bytes);
}
void deallocate_on(Device device, void* data, std::size_t bytes) noexcept {
  device.is_cuda() ? cuda::deallocate(data, device.index) : deallocate(data, bytes);
}
#else
void* allocate_on(Device, std::size_t bytes) { return allocate(bytes); }
void deallocate_on(Device, void* data, std::size_t bytes) noexcept { deallocate(data, bytes); }
#endif

}  // namespace

Ref<Storage> Storage::make(std::size_t bytes, Device device) {
  static_assert(sizeof(Storage) <= kHeader);
  if (device.is_cuda() || bytes > kInline) return make_ref<Storage>(bytes, device);
  auto* made = ::new (allocate(kHeader + bytes)) Storage(Inline{}, bytes);
  made->adopt();
  return Ref<Storage>::owning(made);
}

Storage::Storage(std::size_t bytes, Device device)
    : data_(static_cast<std::byte*>(allocate_on(device, bytes))), bytes_(bytes), device_(device), owned_(true) {}

Storage::Storage(void* data, std::size_t bytes, Device device, void (*on_release)(void*), void* context)
    : data_(static_cast<std::byte*>(data)),
      bytes_(bytes),
      release_(on_release),
      context_(context),
      device_(device),
      owned_(false) {}

Storage::~Storage() {
  if (owned_) deallocate_on(device_, data_, bytes_);
  if (release_) release_(context_);
}

void Storage::destroy() const noexcept {
  if (!inline_) {
    delete this;
    return;
  }
  const std::size_t bytes = kHeader + bytes_;
  auto* self = const_cast<Storage*>(this);
  self->~Storage();
  deallocate(self, bytes);
}

}  // namespace spool
