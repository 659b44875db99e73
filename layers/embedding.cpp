#include "spool/layers/embedding.h"

#include <fmt/format.h>

#include "spool/autograd/grad_mode.h"
#include "spool/autograd/ops.h"
#include "spool/core/errors.h"
#include "spool/layers/init.h"
#include "spool/layers/options.h"

namespace spool {
namespace {

Embedding::Options checked(Embedding::Options o) {
  detail::check_option("Embedding", "num_embeddings", o.num_embeddings, 1);
  detail::check_option("Embedding", "embedding_dim", o.embedding_dim, 1);
  if (!o.padding_idx) return o;
  if (*o.padding_idx < -o.num_embeddings || *o.padding_idx >= o.num_embeddings)
    throw ValueError("Embedding",
                     fmt::format("padding_idx = {} is not a row: num_embeddings is {}", *o.padding_idx, o.num_embeddings));
  if (*o.padding_idx < 0) *o.padding_idx += o.num_embeddings;
  return o;
}

}  // namespace

Embedding::Embedding(Options given)
    : options(checked(given)), weight(add_parameter("weight", empty({options.num_embeddings, options.embedding_dim}))) {
  reset_parameters();
}

void Embedding::reset_parameters() {
  init::normal_(weight);
  if (!options.padding_idx) return;
  NoGrad guard;
  weight.select(0, *options.padding_idx).zero_();
}

Tensor Embedding::forward(const Tensor& indices) {
  const Tensor rows = embedding(indices, weight);
  if (!options.padding_idx || !rows.requires_grad()) return rows;
  // The same values, with the gradient cut where the index is the padding's.
  return where(eq(indices, *options.padding_idx).unsqueeze(-1), rows.detach(), rows);
}

std::string Embedding::extra_repr() const {
  std::string text = fmt::format("{}, {}", options.num_embeddings, options.embedding_dim);
  if (options.padding_idx) text += fmt::format(", padding_idx={}", *options.padding_idx);
  return text;
}

}  // namespace spool
