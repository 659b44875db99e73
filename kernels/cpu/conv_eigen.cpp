#define EIGEN_DONT_PARALLELIZE  // images are shared among the threads, each product stays on one
#include "spool/kernels/cpu/conv_eigen.h"

#include <Eigen/Core>
#include <algorithm>
#include <vector>

#include "spool/core/parallel.h"
#include "spool/kernels/ref/view.h"

namespace spool::kernels::cpu::eigen {
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Map = Eigen::Map<Matrix, Eigen::Unaligned, Eigen::OuterStride<>>;
using ConstMap = Eigen::Map<const Matrix, Eigen::Unaligned, Eigen::OuterStride<>>;

struct Sizes {
  std::int64_t n, c, h, w, o, kh, kw, oh, ow, groups, group_c, group_o;
  ConvParams p;
  Sizes(const Tensor& x, const Tensor& weight, const Tensor& y, const ConvParams& params)
      : n(x.shape()[0]),
        c(x.shape()[1]),
        h(x.shape()[2]),
        w(x.shape()[3]),
        o(weight.shape()[0]),
        kh(weight.shape()[2]),
        kw(weight.shape()[3]),
        oh(y.shape()[2]),
        ow(y.shape()[3]),
        groups(params.groups),
        group_c(weight.shape()[1]),
        group_o(o / groups),
        p(params) {}
  std::int64_t patch() const { return kh * kw * group_c; }
  std::int64_t pixels() const { return oh * ow; }

  // Calls f(element of the patch matrix, element of the image or -1) for each run of group_c channels.
  template <class F>
  void for_each_run(std::int64_t group, const F& f) const {
    for (std::int64_t i = 0; i < oh; ++i)
      for (std::int64_t j = 0; j < ow; ++j)
        for (std::int64_t u = 0; u < kh; ++u)
          for (std::int64_t v = 0; v < kw; ++v) {
            const std::int64_t row = i * p.stride.h + u * p.dilation.h - p.padding.h,
                               column = j * p.stride.w + v * p.dilation.w - p.padding.w;
            const bool inside = row >= 0 && row < h && column >= 0 && column < w;
            f((i * ow + j) * patch() + (u * kw + v) * group_c, inside ? (row * w + column) * c + group * group_c : -1);
          }
  }
  void gather(const float* image, std::int64_t group, float* patches) const {
    for_each_run(group, [&](std::int64_t to, std::int64_t from) {
      if (from < 0)
        std::fill_n(patches + to, group_c, 0.0F);
      else
        std::copy_n(image + from, group_c, patches + to);
    });
  }
  void scatter(const float* patches, std::int64_t group, float* image) const {
    for_each_run(group, [&](std::int64_t from, std::int64_t to) {
      if (to < 0) return;
      for (std::int64_t k = 0; k < group_c; ++k) image[to + k] += patches[from + k];
    });
  }
  ConstMap outputs(const float* y, std::int64_t image, std::int64_t group) const {
    return ConstMap(y + image * pixels() * o + group * group_o, pixels(), group_o, Eigen::OuterStride<>(o));
  }
};

// The weight as [O, kH * kW * C / groups], in the order of a patch.
Matrix patch_order(const Tensor& weight, const Sizes& s) {
  const ref::View<const float> w(weight);
  Matrix m(s.o, s.patch());
  for (std::int64_t o = 0; o < s.o; ++o)
    for (std::int64_t u = 0; u < s.kh; ++u)
      for (std::int64_t v = 0; v < s.kw; ++v)
        for (std::int64_t c = 0; c < s.group_c; ++c) m(o, (u * s.kw + v) * s.group_c + c) = w(o, c, u, v);
  return m;
}

const float* data(const Tensor& t) { return static_cast<const float*>(t.raw_data()); }
float* mutable_data(Tensor& t) { return static_cast<float*>(t.raw_data()); }

}  // namespace

void conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y, const ConvParams& p) {
  const Sizes s(x, weight, y, p);
  const Matrix w = patch_order(weight, s);
  parallel_for(s.n, 1, [&](std::int64_t begin, std::int64_t end) {
    Matrix patches(s.pixels(), s.patch());
    for (std::int64_t n = begin; n < end; ++n)
      for (std::int64_t g = 0; g < s.groups; ++g) {
        s.gather(data(x) + n * s.h * s.w * s.c, g, patches.data());
        Map out(mutable_data(y) + n * s.pixels() * s.o + g * s.group_o, s.pixels(), s.group_o, Eigen::OuterStride<>(s.o));
        out.noalias() = patches * w.middleRows(g * s.group_o, s.group_o).transpose();
        if (bias.defined()) out.rowwise() += Eigen::Map<const Eigen::RowVectorXf>(data(bias) + g * s.group_o, s.group_o);
      }
  });
}

void conv2d_input_grad(const Tensor& gy, const Tensor& weight, Tensor& gx, const ConvParams& p) {
  const Sizes s(gx, weight, gy, p);
  const Matrix w = patch_order(weight, s);
  parallel_for(s.n, 1, [&](std::int64_t begin, std::int64_t end) {
    Matrix patches(s.pixels(), s.patch());
    for (std::int64_t n = begin; n < end; ++n) {
      float* image = mutable_data(gx) + n * s.h * s.w * s.c;
      std::fill_n(image, s.h * s.w * s.c, 0.0F);
      for (std::int64_t g = 0; g < s.groups; ++g) {
        patches.noalias() = s.outputs(data(gy), n, g) * w.middleRows(g * s.group_o, s.group_o);
        s.scatter(patches.data(), g, image);
      }
    }
  });
}

void conv2d_weight_grad(const Tensor& x, const Tensor& gy, Tensor& gw, Tensor& gb, const ConvParams& p) {
  const Sizes s(x, gw, gy, p);
  // A sum for each piece of the batch, added up in order: the same bits on every run with as many threads.
  const std::int64_t pieces = std::max<std::int64_t>(1, std::min<std::int64_t>(get_num_threads(), s.n));
  std::vector<Matrix> sums(static_cast<std::size_t>(pieces), Matrix::Zero(s.o, s.patch()));
  std::vector<Eigen::VectorXf> bias_sums(static_cast<std::size_t>(pieces), Eigen::VectorXf::Zero(s.o));
  parallel_for(pieces, 1, [&](std::int64_t first, std::int64_t last) {
    Matrix patches(s.pixels(), s.patch());
    for (std::int64_t piece = first; piece < last; ++piece)
      for (std::int64_t n = s.n * piece / pieces; n < s.n * (piece + 1) / pieces; ++n)
        for (std::int64_t g = 0; g < s.groups; ++g) {
          const ConstMap out = s.outputs(data(gy), n, g);
          s.gather(data(x) + n * s.h * s.w * s.c, g, patches.data());
          sums[static_cast<std::size_t>(piece)].middleRows(g * s.group_o, s.group_o).noalias() += out.transpose() * patches;
          if (gb.defined())
            bias_sums[static_cast<std::size_t>(piece)].segment(g * s.group_o, s.group_o) += out.colwise().sum().transpose();
        }
  });
  for (std::size_t piece = 1; piece < sums.size(); ++piece) {
    sums[0] += sums[piece];
    bias_sums[0] += bias_sums[piece];
  }
  const ref::View<float> w(gw);
  for (std::int64_t o = 0; o < s.o; ++o)
    for (std::int64_t u = 0; u < s.kh; ++u)
      for (std::int64_t v = 0; v < s.kw; ++v)
        for (std::int64_t c = 0; c < s.group_c; ++c) w(o, c, u, v) = sums[0](o, (u * s.kw + v) * s.group_c + c);
  if (gb.defined()) std::copy_n(bias_sums[0].data(), s.o, mutable_data(gb));
}

}  // namespace spool::kernels::cpu::eigen
