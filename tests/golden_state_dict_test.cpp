// A state_dict() that PyTorch saved, in a network of the same structure (tests/golden/make_state_dict.py).
#include "train_support.h"

using namespace spool;
using namespace spool::test;

namespace {

struct Net : Module {
  Sequential& block1 = add<Sequential>("block1");
  LayerNorm& norm = add<LayerNorm>("norm", {.normalized_shape = {8}});
  Embedding& embedding = add<Embedding>("embedding", {.num_embeddings = 5, .embedding_dim = 4});
  Linear& fc = add<Linear>("fc", {.in_features = 4, .out_features = 3});
  Net() {
    block1.append<Conv2d>({.in_channels = 3, .out_channels = 4, .kernel_size = 3, .stride = 2, .padding = 1, .bias = false});
    block1.append<BatchNorm2d>({.num_features = 4});
    block1.append<ReLU>();
    block1.append<ConvTranspose2d>({.in_channels = 4, .out_channels = 4, .kernel_size = 2, .stride = 2, .groups = 2});
    block1.append<GroupNorm>({.num_groups = 2, .num_channels = 4});
    block1.append<GELU>();
  }
  Tensor forward(const Tensor& x) override { return fc(norm(block1(x)).mean({2, 3}) * embedding.weight.sum({0})); }
};

}  // namespace

TEST_CASE("A state_dict that PyTorch saved loads by its own names and gives PyTorch's logits, and survives being saved again") {
  const std::string golden = SPOOL_SOURCE_DIR "/tests/golden/";
  const StateDict expected = load_safetensors(golden + "state_dict_logits.safetensors").tensors;
  const TempFolder folder;
  const std::string again = (folder / "again.safetensors").string(), checkpoint = (folder / "checkpoint.safetensors").string();
  Net first, second, third;
  const LoadResult result = load_weights(first, golden + "state_dict.safetensors");
  CHECK(result.missing.empty());
  CHECK(result.unexpected.empty());
  save_weights(first, again);
  save_checkpoint(checkpoint, {.model = &first});
  load_weights(second, again);
  load_weights(third, checkpoint);
  for (Net* net : {&first, &second, &third}) {
    net->eval();
    const NoGrad no_grad;
    const Tensor logits = (*net)(*find_tensor(expected, "x"));
    CHECK(abs(logits - *find_tensor(expected, "logits")).max().item() < 1e-5f);
  }
  // Names and types are PyTorch's, so what we save is what PyTorch would.
  const StateDict saved = load_safetensors(again).tensors, theirs = load_safetensors(golden + "state_dict.safetensors").tensors;
  CHECK(same_bits(saved, theirs));
}
