#pragma once
#include <optional>

#include "spool/layers/module.h"

namespace spool {

// A table of vectors: indices i64 [*] -> [*, embedding_dim].
struct Embedding : Module {
  struct Options {
    std::int64_t num_embeddings = 0;  // required: the number of rows
    std::int64_t embedding_dim = 0;   // required
    std::optional<std::int64_t> padding_idx =
        {};  // a row that starts as zeros and gets no gradient; negative counts from the end
  };
  explicit Embedding(Options options);
  Tensor forward(const Tensor& indices) override;
  void reset_parameters();
  std::string extra_repr() const override;

  const Options options;
  Tensor& weight;  // [num_embeddings, embedding_dim], standard normal
};

}  // namespace spool
