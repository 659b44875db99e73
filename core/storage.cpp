#include "spool/core/storage.h"

namespace spool {

Storage::Storage(std::size_t bytes, Device device)
    : data_(static_cast<std::byte*>(allocate(bytes))), bytes_(bytes), device_(device), owned_(true) {}

Storage::Storage(void* data, std::size_t bytes, Device device, void (*on_release)(void*), void* context)
    : data_(static_cast<std::byte*>(data)),
      bytes_(bytes),
      release_(on_release),
      context_(context),
      device_(device),
      owned_(false) {}

Storage::~Storage() {
  if (owned_) deallocate(data_, bytes_);
  if (release_) release_(context_);
}

}  // namespace spool
