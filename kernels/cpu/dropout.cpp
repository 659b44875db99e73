#include "spool/core/parallel.h"
#include "spool/kernels/cpu/loops.h"
#include "spool/kernels/norm.h"

namespace spool::kernels::cpu {

void dropout_mask(Tensor& mask, double p, Generator::Draw draw) {
  auto* out = static_cast<bool*>(mask.raw_data());
  const std::int64_t n = mask.numel();
  const auto threshold = static_cast<std::uint64_t>(p * 0x1p32);  // of a 32-bit word; p = 1 is beyond every word
  parallel_for((n + 3) / 4, 4096, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      const Philox r = draw(static_cast<std::uint64_t>(b));
      for (int k = 0; k < 4 && 4 * b + k < n; ++k) out[4 * b + k] = r.words[k] >= threshold;
    }
  });
}

void masked_scale(const Tensor& x, const Tensor& mask, double scale, Tensor& y) {
  visit_floating(y.dtype(), [&]<class T>(TypeTag<T>) {
    using S = accumulate_t<T>;
    const auto factor = static_cast<S>(scale);
    for_each_row({&y, &x, &mask}, [factor](std::byte* const* p, const std::int64_t* s, std::int64_t n) {
      if (s[0] == sizeof(T) && s[1] == sizeof(T) && s[2] == 1) {
        T* out = reinterpret_cast<T*>(p[0]);
        const T* in = reinterpret_cast<const T*>(p[1]);
        const auto* keep = reinterpret_cast<const std::uint8_t*>(p[2]);
        for (std::int64_t i = 0; i < n; ++i) out[i] = keep[i] ? static_cast<T>(static_cast<S>(in[i]) * factor) : T{};
        return;
      }
      for (std::int64_t i = 0; i < n; ++i)
        *reinterpret_cast<T*>(p[0] + i * s[0]) =
            *reinterpret_cast<const bool*>(p[2] + i * s[2])
                ? static_cast<T>(static_cast<S>(*reinterpret_cast<const T*>(p[1] + i * s[1])) * factor)
                : T{};
    });
  });
}

}  // namespace spool::kernels::cpu
