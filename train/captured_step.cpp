#include "spool/train/captured_step.h"

#include "spool/autograd/grad_mode.h"
#include "spool/core/errors.h"
#if SPOOL_WITH_CUDA
#include "spool/kernels/step_graph.h"
#endif

namespace spool {

#if SPOOL_WITH_CUDA

namespace {
constexpr int kWarmUp = 2;  // steps in which libraries choose their algorithms, and optimizers make their state
}  // namespace

struct CapturedStep::Shaped {
  Tensor inputs, targets;  // what the graph reads
  int seen = 0;
  Result result{{}};
  Tensor grad_norm;
  std::unique_ptr<kernels::StepGraph> graph;
  std::int64_t first_step = 0;  // of the optimizer and of the generator, when it was captured
  std::uint64_t first_draw = 0;
  std::uint64_t draws = 0;
  std::vector<std::size_t> groups;  // that have gradients
};

CapturedStep::CapturedStep(Step step, Optimizer& optimizer, Generator& generator)
    : step_(std::move(step)), optimizer_(optimizer), generator_(generator) {}
CapturedStep::~CapturedStep() = default;

std::size_t CapturedStep::nodes() const { return captured_ && last_ ? last_->graph->nodes() : 0; }

CapturedStep::Result CapturedStep::run(const Tensor& inputs, const Tensor& targets) {
  captured_ = false;
  if (!inputs.is_cuda()) reason_ = "the inputs are on the CPU, which runs operations as they come";
  if (!reason_.empty()) return step_(inputs, targets);
  Shaped* found = nullptr;
  for (const auto& s : shapes_)
    if (s->inputs.shape() == inputs.shape() && s->inputs.dtype() == inputs.dtype() && s->inputs.strides() == inputs.strides() &&
        s->inputs.device() == inputs.device() && s->targets.shape() == targets.shape() && s->targets.dtype() == targets.dtype())
      found = s.get();
  if (!found) {
    shapes_.push_back(std::make_unique<Shaped>());
    found = shapes_.back().get();
    found->inputs = empty_like(inputs);
    found->targets = empty_like(targets);
  }
  last_ = found;
  if (found->graph) return replay(*found, inputs, targets);
  if (found->seen++ < kWarmUp) return step_(inputs, targets);
  return capture(*found, inputs, targets);
}

CapturedStep::Result CapturedStep::capture(Shaped& s, const Tensor& inputs, const Tensor& targets) {
  const std::int64_t steps = optimizer_.steps();
  s.first_draw = generator_.position();
  try {
    auto graph = std::make_unique<kernels::StepGraph>(inputs.device().index);
    const Result result = step_(s.inputs, s.targets);
    s.result = {result.loss.detach(), result.output.defined() ? result.output.detach() : Tensor()};
    s.grad_norm = optimizer_.last_grad_norm();
    s.draws = generator_.position() - s.first_draw;
    graph->finish(s.draws);
    s.graph = std::move(graph);
  } catch (const CudaError& e) {
    // Nothing has run on the device; what the host has counted is put back, and the step runs as written.
    s.result = {{}};
    reason_ = e.what();
    generator_.set_position(s.first_draw);
    optimizer_.set_steps_back(optimizer_.steps() - steps);
    return step_(inputs, targets);
  }
  s.first_step = optimizer_.steps();
  for (std::size_t g = 0; g < optimizer_.groups().size(); ++g) {
    bool any = false;
    for (const Tensor& p : optimizer_.groups()[g].params) any = any || p.grad().defined();
    if (any) s.groups.push_back(g);
  }
  // The recording has counted this step and its draws already.
  generator_.set_position(s.first_draw);
  optimizer_.set_steps_back(1);
  return replay(s, inputs, targets);
}

CapturedStep::Result CapturedStep::replay(Shaped& s, const Tensor& inputs, const Tensor& targets) {
  NoGrad guard;
  s.inputs.copy_(inputs);
  s.targets.copy_(targets);
  optimizer_.set_steps_back(-1);
  cuda::Live live;
  live.steps = optimizer_.steps() - s.first_step;
  live.draws = generator_.position() - s.first_draw;
  generator_.set_position(generator_.position() + s.draws);
  for (std::size_t i = 0; i < s.groups.size(); ++i) {
    const Optimizer::Group& g = optimizer_.groups()[s.groups[i]];
    live.groups[i] = {g.lr, g.momentum, g.weight_decay};
  }
  s.graph->replay(live);
  optimizer_.set_last_grad_norm(s.grad_norm);
  captured_ = true;
  return s.result;
}

#else

struct CapturedStep::Shaped {};
CapturedStep::CapturedStep(Step step, Optimizer& optimizer, Generator& generator)
    : step_(std::move(step)), optimizer_(optimizer), generator_(generator), reason_("this build of Spool has no CUDA backend") {}
CapturedStep::~CapturedStep() = default;
std::size_t CapturedStep::nodes() const { return 0; }
CapturedStep::Result CapturedStep::run(const Tensor& inputs, const Tensor& targets) { return step_(inputs, targets); }

#endif

}  // namespace spool
