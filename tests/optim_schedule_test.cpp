#include <cmath>

#include "support.h"

using namespace spool;
using namespace spool::test;

namespace {

struct Rig {
  Tensor w = ones({1}).set_requires_grad();
  SGD sgd{{w}, {.lr = 0.1, .momentum = 0.9}};
};

// The rates used in epochs 0 .. n-1.
template <class S>
std::vector<double> rates(Rig& rig, S& schedule, int n) {
  std::vector<double> out;
  for (int i = 0; i < n; ++i) {
    out.push_back(rig.sgd.lr());
    schedule.step();
  }
  return out;
}

void check(const std::vector<double>& got, const std::vector<double>& want) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    INFO("epoch " << i);
    CHECK(got[i] == Approx(want[i]).margin(1e-12).epsilon(1e-9));
  }
}

}  // namespace

TEST_CASE("Step schedules give PyTorch's rates, the base rate first") {
  Rig a, b;
  StepLR step(a.sgd, {.step_size = 2});
  check(rates(a, step, 6), {0.1, 0.1, 0.01, 0.01, 0.001, 0.001});
  MultiStepLR multi(b.sgd, {.milestones = {2, 2, 5}, .gamma = 0.5});
  check(rates(b, multi, 7), {0.1, 0.1, 0.025, 0.025, 0.025, 0.0125, 0.0125});
}

TEST_CASE("Cosine annealing gives PyTorch's rates, and goes up again after T_max") {
  Rig a, b;
  CosineAnnealingLR cosine(a.sgd, {.T_max = 10});
  check(rates(a, cosine, 11), {0.1, 0.09755282581475769, 0.09045084971874738, 0.07938926261462367, 0.06545084971874739, 0.05,
                               0.03454915028125264, 0.020610737385376353, 0.009549150281252635, 0.002447174185242324, 0});
  CosineAnnealingLR low(b.sgd, {.T_max = 4, .eta_min = 0.02});
  check(rates(b, low, 7), {0.1, 0.08828427124746191, 0.06, 0.0317157287525381, 0.02, 0.0317157287525381, 0.06});
}

TEST_CASE("Linear warm-up, and warm-up followed by a cosine") {
  Rig a, b;
  LinearLR warm(a.sgd);
  check(rates(a, warm, 7), {0.1 / 3, 0.14 / 3, 0.06, 0.22 / 3, 0.26 / 3, 0.1, 0.1});
  LinearLR first(b.sgd, {.start_factor = 0.1, .total_iters = 3});
  CosineAnnealingLR then(b.sgd, {.T_max = 4});
  SequentialLR both(b.sgd, {&first, &then}, {3});
  check(rates(b, both, 8), {0.01, 0.04, 0.07, 0.1, 0.08535533905932738, 0.05, 0.014644660940672627, 0});
}

TEST_CASE("One-cycle gives PyTorch's rates and momenta, and ends") {
  Rig a, b;
  OneCycleLR cycle(a.sgd, {.max_lr = 0.5, .total_steps = 8});
  std::vector<double> lr, momentum;
  for (int i = 0; i < 8; ++i) {
    lr.push_back(a.sgd.lr());
    momentum.push_back(a.sgd.groups()[0].momentum);
    cycle.step();
  }
  check(lr, {0.02, 0.409637552446096, 0.4859708886937616, 0.4058728269748815, 0.2779920070613508, 0.14153049910434962,
             0.0383207969171282, 2e-06});
  check(momentum, {0.95, 0.8688255099070633, 0.8528058334845816, 0.8688255099070633, 0.8944017761948346, 0.9216941869558779,
                   0.9423362099614142, 0.95});
  CHECK(contains(message_of<ValueError>([&] { cycle.step(); }), "total_steps = 8"));
  CHECK(cycle.last_epoch() == 8);
  OneCycleLR three(
      b.sgd,
      {.max_lr = 0.5, .total_steps = 10, .pct_start = 0.4, .anneal_strategy = OneCycleLR::Anneal::linear, .three_phase = true});
  check(rates(b, three, 10), {0.02, 0.18, 0.34, 0.5, 0.34, 0.18, 0.02, 0.013334, 0.006668, 2e-6});
}

TEST_CASE("The rate is lowered on a plateau as PyTorch lowers it") {
  Rig a, b;
  ReduceLROnPlateau plateau(a.sgd, {.factor = 0.5, .patience = 1, .cooldown = 1, .min_lr = 0.02});
  std::vector<double> lr;
  for (const double metric : {1.0, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.5, 0.6, 0.6, 0.6, 0.6}) {
    lr.push_back(a.sgd.lr());
    plateau.step(metric);
  }
  check(lr, {0.1, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.025, 0.025, 0.025, 0.02, 0.02});
  ReduceLROnPlateau rising(b.sgd, {.mode = ReduceLROnPlateau::Mode::max,
                                   .factor = 0.5,
                                   .patience = 0,
                                   .threshold = 0.05,
                                   .threshold_mode = ReduceLROnPlateau::ThresholdMode::abs});
  lr.clear();
  for (const double metric : {0.5, 0.52, 0.6, std::nan(""), 0.7, 0.7}) {
    lr.push_back(b.sgd.lr());
    rising.step(metric);
  }
  check(lr, {0.1, 0.1, 0.05, 0.05, 0.025, 0.025});
}

TEST_CASE("A schedule resumes at the epoch after the one it was saved in") {
  Rig before, after;
  CosineAnnealingLR cosine(before.sgd, {.T_max = 10});
  check(rates(before, cosine, 4), {0.1, 0.09755282581475769, 0.09045084971874738, 0.07938926261462367});
  CosineAnnealingLR resumed(after.sgd, {.T_max = 10});
  after.sgd.load_state_dict(before.sgd.state_dict());
  resumed.load_state_dict(cosine.state_dict());
  CHECK(resumed.last_epoch() == 4);
  check(rates(after, resumed, 7),
        {0.06545084971874739, 0.05, 0.03454915028125264, 0.020610737385376353, 0.009549150281252635, 0.002447174185242324, 0});

  Rig one, two;
  ReduceLROnPlateau watch(one.sgd, {.factor = 0.5, .patience = 1}), again(two.sgd, {.factor = 0.5, .patience = 1});
  for (const double metric : {1.0, 1.0, 1.0, 1.0}) watch.step(metric);
  again.load_state_dict(watch.state_dict());
  CHECK(two.sgd.lr() == one.sgd.lr());
  watch.step(1.0);
  again.step(1.0);
  CHECK(two.sgd.lr() == Approx(0.025));
  CHECK(two.sgd.lr() == one.sgd.lr());
  CHECK_THROWS_AS(resumed.load_state_dict(watch.state_dict()), ValueError);
  CHECK(resumed.last_epoch() == 11);
}

TEST_CASE("Schedules scale each group from its own base rate") {
  Tensor a = ones({1}), b = ones({1});
  Adam adam({{.params = {a}}, {.params = {b}, .lr = 1.0}}, {.lr = 0.1});
  StepLR schedule(adam, {.step_size = 1, .gamma = 0.5});
  schedule.step();
  CHECK(adam.groups()[0].lr == Approx(0.05));
  CHECK(adam.groups()[1].lr == Approx(0.5));
  schedule.set_epoch(3);
  CHECK(adam.groups()[1].lr == Approx(0.125));
}

TEST_CASE("Options of schedules are checked") {
  Rig rig, other;
  const auto says = [](auto make, const char* part) { CHECK(contains(message_of<ValueError>(make), part)); };
  says([&] { StepLR(rig.sgd, {}); }, "step_size");
  says([&] { MultiStepLR(rig.sgd, {.milestones = {3, 1}}); }, "ascending");
  says([&] { CosineAnnealingLR(rig.sgd, {.T_max = 0}); }, "T_max");
  says([&] { LinearLR(rig.sgd, {.start_factor = 0}); }, "start_factor");
  says([&] { OneCycleLR(rig.sgd, {.total_steps = 3}); }, "max_lr");
  says([&] { OneCycleLR(rig.sgd, {.max_lr = 1}); }, "total_steps");
  says([&] { ReduceLROnPlateau(rig.sgd, {.factor = 1}); }, "factor");
  StepLR step(rig.sgd, {.step_size = 1});
  says([&] { step.set_epoch(-1); }, "-1");
  says([&] { SequentialLR(rig.sgd, {&step}, {3}); }, "milestones");
  says([&] { SequentialLR(other.sgd, {&step}, {}); }, "same optimizer");
}
