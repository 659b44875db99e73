// Normalisation and dropout against numbers of PyTorch's.
#include <cmath>

#include "support.h"

using namespace spool;
using namespace spool::test;

namespace {

Tensor leaf(const Tensor& t, DType type) {
  Tensor x = t.to(type).detach();
  return x.set_requires_grad();
}
Tensor waves(const Shape& shape) { return sin(reshape(arange(0, shape.numel(), 1, f64), shape)); }
Tensor cosines(const Shape& shape) { return cos(reshape(arange(0, shape.numel(), 1, f64) * 0.7, shape)); }
double margin(DType type) { return type == f64 ? 1e-6 : 2e-6; }

}  // namespace

TEST_CASE("Batch norm divides by n for its result and by n - 1 for the running variance") {
  for (const DType type : {f32, f64}) {
    const Tensor x = leaf(tensor({{2}, {4}, {6}, {8}}), type), weight = leaf(ones({1}), type), bias = leaf(zeros({1}), type);
    Tensor mean = zeros({1}, {.dtype = type}), var = ones({1}, {.dtype = type});
    const Tensor y = batch_norm(x, weight, bias, mean, var, {.training = true});
    check_close(y, {-1.3416393, -0.4472131, 0.4472131, 1.3416393});
    check_close(mean, {0.5});
    check_close(var, {1.5666667});
    y.select(0, 0).sum().backward();
    check_close(x.grad(), {0.1341643, -0.1788851, -0.0447214, 0.0894422}, margin(type));
    check_close(weight.grad(), {-1.3416394});
    check_close(bias.grad(), {1});
    check_close(batch_norm(tensor({{2}, {4}, {6}, {8}}).to(type), {}, {}, mean, var),
                {1.1983993, 2.7962651, 4.3941312, 5.9919968});
    batch_norm(x, weight, bias, mean, var, {.training = true});
    check_close(mean, {0.95});
    check_close(var, {2.0766667});
    check_close(batch_norm(x, weight, bias, mean, var), {0.7286264, 2.1164861, 3.5043459, 4.8922052});
  }
}

TEST_CASE("Batch norm of images is PyTorch's") {
  for (const DType type : {f32, f64}) {
    const Tensor x = leaf(waves({2, 3, 2, 2}), type), w = leaf(linspace(0.5, 1.5, 3, {.dtype = f64}), type),
                 b = leaf(linspace(-1, 1, 3, {.dtype = f64}), type);
    Tensor mean = zeros({3}, {.dtype = type}), var = ones({3}, {.dtype = type});
    const Tensor y = batch_norm(x, w, b, mean, var, {.training = true});
    y.backward(cosines(y.shape()).to(type));
    CHECK(y.is_contiguous(MemoryFormat::channels_last));
    check_close(y, {-1.4308815, -0.5818553, -0.5134199, -1.2884944, -0.6645297, -1.0394712, 0.2210364,  1.9580883,
                    2.7666143,  1.6276744,  -0.258865,  -1.1585283, -1.9722721, -1.006942,  -0.4313799, -0.774755,
                    0.2052913,  -1.0440591, -0.6537423, 1.0173863,  2.6158454,  2.46532,    0.7970675,  -0.8551283},
                margin(type));
    check_close(x.grad(), {1.1893612, 0.9552707, 0.3553108, -0.3284632, -1.6933371, -1.5800811, -1.0971713, -0.3168868,
                           1.0296627, 1.7299453, 1.6715661, 0.6902642,  -0.3455955, -0.774261,  -0.7546555, -0.2969675,
                           0.1931626, 1.6165092, 1.9055396, 0.972265,   -0.196679,  -1.4852138, -1.9351459, -1.5043997},
                margin(type));
    check_close(w.grad(), {-0.0148427, 1.1796582, 1.3762885}, margin(type));
    check_close(b.grad(), {-1.4430102, 0.5488314, 0.4087677}, margin(type));
    check_close(mean, {0.0427047, -0.0398571, 0.0093999});
    check_close(var, {0.9280641, 0.9332106, 0.9660508});
  }
}

TEST_CASE("Epsilon lies inside the square root") {
  Tensor mean = zeros({1}), none = zeros({1}), small = full({1}, 1e-4);
  check_close(batch_norm(ones({1, 1}), {}, {}, mean, none), {316.227783}, 1e-3);
  check_close(batch_norm(ones({1, 1}), {}, {}, mean, small), {95.3462601}, 1e-3);
}

TEST_CASE("A large mean does not drown the variance") {
  const std::vector<double> row = {10000, 10000.25, 10000.5, 10000.75}, want = {-1.341555, -0.447185, 0.447185, 1.341555};
  check_close(layer_norm(tensor(row, {1, 4}, f32), {4}), want, 2e-3);
  Tensor mean = zeros({1}), var = ones({1});
  check_close(batch_norm(tensor(row, {4, 1}, f32), {}, {}, mean, var, {.training = true}), want, 2e-3);
  check_close(var, {0.9104167}, 1e-5);
}

TEST_CASE("The running variance keeps its digits over many values far from zero") {
  // 200000 values of mean 3000 and variance about 1/12, over many blocks and threads.
  Generator generator(4);
  const Tensor x = rand({100000, 2}, {.dtype = f64}, generator) + 3000;
  Tensor mean = zeros({2}), var = zeros({2}), exact_mean = zeros({2}, {.dtype = f64}), exact_var = zeros({2}, {.dtype = f64});
  const Tensor rounded = x.to(f32);
  batch_norm(rounded, {}, {}, mean, var, {.training = true, .momentum = 1});
  batch_norm(rounded.to(f64), {}, {}, exact_mean, exact_var, {.training = true, .momentum = 1});
  check_close(var, exact_var.to_vector<double>(), 1e-7);
  check_close(mean, exact_mean.to_vector<double>(), 1e-3);
}

TEST_CASE("Constant rows and columns normalise to zero, with finite gradients") {
  for (const double value : {100.0, 0.1}) {
    const Tensor x = leaf(full({1, 9}, value), f32), y = layer_norm(x, {9});
    check_close(y, std::vector<double>(9, 0.0), 1e-3);
    y.backward(ones({1, 9}));
    check_close(x.grad(), std::vector<double>(9, 0.0), 1e-3);
  }
  const Tensor x = leaf(full({9, 1}, 100), f32);
  Tensor none;
  const Tensor y = batch_norm(x, {}, {}, none, none, {.training = true});
  check_close(y, std::vector<double>(9, 0.0), 1e-3);
  y.backward(reshape(arange(9).to(f32), {9, 1}));
  std::vector<double> want;
  for (int g = 0; g < 9; ++g) want.push_back((g - 4) * 316.2278);
  check_close(x.grad(), want, 1e-2);
}

TEST_CASE("NaN travels through batch norm into its channel alone") {
  Tensor none;
  const Tensor y = batch_norm(tensor({{1, 1}, {std::nan(""), 2}, {3, 3}}), {}, {}, none, none, {.training = true});
  check_close(y.select(1, 0), {NAN, NAN, NAN});
  check_close(y.select(1, 1), {-1.2247357, 0, 1.2247357}, 1e-5);
}

TEST_CASE("Running statistics count as overwritten, and are left alone in evaluation and by a failed call") {
  Tensor mean = zeros({2}), var = ones({2});
  const auto version = mean.version();
  batch_norm(ones({3, 2}), {}, {}, mean, var);
  CHECK(mean.version() == version);
  CHECK_THROWS_AS(batch_norm(ones({1, 2}), {}, {}, mean, var, {.training = true}), ValueError);
  check_close(mean, {0, 0});
  batch_norm(ones({3, 2}), {}, {}, mean, var, {.training = true});
  CHECK(mean.version() > version);
  check_close(mean, {0.1, 0.1});
}

TEST_CASE("Evaluation may be followed by training before its backward pass") {
  const Tensor x = leaf(tensor({{1}, {3}}), f32);
  Tensor mean = zeros({1}), var = full({1}, 4);
  const Tensor y = batch_norm(x, {}, {}, mean, var);
  batch_norm(ones({4, 1}), {}, {}, mean, var, {.training = true});
  sum(y).backward();
  check_close(x.grad(), {0.5, 0.5}, 1e-5);
}

TEST_CASE("A bf16 batch keeps f32 statistics and parameters") {
  Tensor mean = zeros({2}), var = ones({2});
  const Tensor weight = leaf(ones({2}), f32);
  const Tensor y = batch_norm(waves({4, 2, 3, 3}).to(bf16), weight, {}, mean, var, {.training = true});
  CHECK(y.dtype() == bf16);
  CHECK(mean.dtype() == f32);
  sum(y.to(f32) * 2).backward();
  CHECK(weight.grad().dtype() == f32);
}

TEST_CASE("Batch norm is the same on every run with several threads") {
  Generator generator(9);
  const Tensor x = randn({16, 24, 32, 32}, {}, generator), g = randn({16, 24, 32, 32}, {}, generator);
  const auto run = [&] {
    Tensor mean = zeros({24}), var = ones({24});
    const Tensor input = leaf(x, f32), weight = leaf(ones({24}), f32);
    batch_norm(input, weight, {}, mean, var, {.training = true}).backward(g);
    return std::vector<Tensor>{mean, var, input.grad(), weight.grad()};
  };
  const int threads = get_num_threads();
  set_num_threads(3);
  const auto first = run(), second = run();
  set_num_threads(threads);
  for (std::size_t i = 0; i < first.size(); ++i) CHECK(equal(first[i], second[i]));
}

TEST_CASE("Layer norm is PyTorch's") {
  for (const DType type : {f32, f64}) {
    const Tensor x = leaf(waves({2, 3, 4}), type), w = leaf(linspace(0.5, 1.5, 4, {.dtype = f64}), type),
                 b = leaf(linspace(-1, 1, 4, {.dtype = f64}), type);
    const Tensor y = layer_norm(x, {4}, w, b);
    y.backward(cosines(y.shape()).to(type));
    check_close(y, {-1.5821709, 0.4226286,  1.5864808, -0.2254083, -1.3386937, -1.1680228, 0.4364993,  3.3858802,
                    -0.3437586, 0.1444485,  -0.426144, -0.8522606, -1.8087222, -0.2759862, 1.586592,   1.7116092,
                    -0.7965933, -1.3012645, -0.450137, 3.1393751,  -0.5185187, 0.3803223,  -0.0455732, -1.2418585},
                margin(type));
    check_close(x.grad(), {1.4679952,  0.7509998,  -0.4149429, -1.8040521, 0.2695324,  -0.0321645, -0.3514788, 0.1141109,
                           -0.3041525, 0.2969785,  0.407268,   -0.400094,  -0.0142715, -0.1024392, -0.119144,  0.2358547,
                           -1.5519505, -0.1840077, 0.98116,    0.7547983,  0.3870646,  -0.250791,  -0.3090863, 0.1728126},
                margin(type));
    check_close(w.grad(), {1.546003, 0.7698598, -1.7127155, 2.734632}, margin(type));
    check_close(b.grad(), {0.653797, 0.1330084, -0.450336, -0.8218804}, margin(type));
  }
}

TEST_CASE("Group norm is PyTorch's") {
  for (const DType type : {f32, f64}) {
    const Tensor x = leaf(waves({2, 4, 3}), type), w = leaf(linspace(0.5, 1.5, 4, {.dtype = f64}), type),
                 b = leaf(linspace(-1, 1, 4, {.dtype = f64}), type);
    const Tensor y = group_norm(x, 2, w, b);
    y.backward(cosines(y.shape()).to(type));
    check_close(y, {-1.0206171, -0.4297275, -0.3820991, -0.2025353, -1.2534193, -1.4899726, -0.197181,  1.3621192,
                    1.9155857,  1.7984679,  -0.2486042, -1.2248231, -1.4215666, -0.7290811, -0.3161982, 0.3957993,
                    -0.7359672, -1.5484222, -1.0274562, 0.5051123,  1.8032589,  2.7230374,  0.8736746,  -0.9578884},
                margin(type));
    check_close(x.grad(), {0.963905,  0.1336137, -0.3377288, -0.4407039, -0.2428029, -0.076283,  -1.4985937, -0.7515451,
                           0.0944992, 1.1778951, 1.0392329,  -0.0614884, -0.6084706, -0.2310038, 0.1914638,  0.0466778,
                           0.1909869, 0.4103458, 2.0403388,  1.6103944,  0.5851386,  -0.8151516, -1.7387493, -1.6819708},
                margin(type));
    check_close(w.grad(), {-0.3069877, 0.6005086, 0.5551498, 0.3507634}, margin(type));
    check_close(b.grad(), {-0.4626272, -1.8699869, 2.3507384, -0.5035354}, margin(type));
  }
}

TEST_CASE("Dropout with probability one gives zeros and a gradient of zeros") {
  const Tensor x = leaf(tensor({1, 2}), f32), y = dropout(x, 1);
  check_close(y, {0, 0});
  sum(y).backward();
  check_close(x.grad(), {0, 0});
}

TEST_CASE("Dropout with probability zero and outside of training is the identity") {
  for (const bool training : {true, false}) {
    const Tensor x = leaf(tensor({1, 2}), f32), y = dropout(x, training ? 0 : 0.5, training);
    check_close(y, {1, 2});
    sum(y).backward();
    check_close(x.grad(), {1, 1});
  }
}

TEST_CASE("Dropout keeps the mean and its gradient has the mask of its result") {
  Generator generator(1);
  const Tensor x = leaf(ones({100000}), f32), y = dropout(x, 0.3, true, generator);
  sum(y).backward();
  CHECK(mean(y).item() == Approx(1).margin(0.01));
  const auto values = y.to_vector<float>(), gradient = x.grad().to_vector<float>();
  for (std::size_t i = 0; i < values.size(); ++i) REQUIRE((values[i] == 0 || values[i] == Approx(1.4285715)));
  CHECK(values == gradient);
}

TEST_CASE("What dropout drops depends on the seed and the place, not on threads or memory order") {
  const auto run = [](const Tensor& x) {
    Generator generator(5);
    return dropout(x, 0.5, true, generator);
  };
  const Tensor x = ones({4, 8, 20, 30}), want = run(x);
  CHECK(equal(run(x.contiguous(MemoryFormat::channels_last)), want));
  const int threads = get_num_threads();
  set_num_threads(1);
  CHECK(equal(run(x), want));
  set_num_threads(threads);
  Generator generator(5);
  dropout(x, 0.5, true, generator);
  CHECK_FALSE(equal(dropout(x, 0.5, true, generator), want));
}
