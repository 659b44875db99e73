// Spool's half of tests/peers/weights.py:
//   weights_peer load WEIGHTS INPUT LOGITS              loads weights, writes the logits of an input
//   weights_peer save WEIGHTS INPUT LOGITS CHECKPOINT   trains a little, then writes all of these
#include <spool/spool.h>

#include <cstdio>
#include <string_view>

#include "../../examples/cifar10/convnet.h"

using namespace spool;

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  try {
    manual_seed(1);
    ConvNet model;
    if (std::string_view(argv[1]) == "load") {
      load_weights(model, argv[2]);
    } else {
      Adam adam(model.parameters(), {.lr = 1e-3});
      DataLoader loader(Synthetic({.size = 96}), {.batch_size = 32, .shuffle = true});
      Trainer(model, adam, {.verbose = false}).fit(loader);
      save_weights(model, argv[2]);
      save_checkpoint(argv[5], {.model = &model, .optimizer = &adam});
    }
    model.eval();
    const NoGrad no_grad;
    const StateDict input = load_safetensors(argv[3]).tensors;
    save_safetensors(argv[4], {{"logits", model(*find_tensor(input, "x"))}});
  } catch (const std::exception& e) {
    std::fprintf(stderr, "weights_peer: %s\n", e.what());
    return 1;
  }
}
